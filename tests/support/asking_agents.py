"""An agent that opens an escalation."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.agents import Console
from tests.support.processes import ROOT, Running

TICKET = "refund-of-order-17"


def asking(server: Console, key: str, instance: str, folder: Path) -> Running:
    argv = [sys.executable, "-m", "tests.flows.asking_agent", instance, TICKET]
    env = {"RECOVERY_OPS_URL": server.url, "RECOVERY_OPS_KEY": key, "RECOVERY_OPS_DIR": str(folder)}
    return Running(argv, env=env, folder=ROOT)
