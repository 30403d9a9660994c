"""People who answer escalations of a running server."""

from __future__ import annotations

import json
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes import ROOT, Running


@dataclass
class Desk:
    """A console on a port that stays, the keys of both sides, and the file in which refunds are written down."""

    port: str
    folder: Path
    key: str = ""
    desk_key: str = ""

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    def lines(self) -> list[str]:
        return sorted(self.ledger.read_text().splitlines()) if self.ledger.exists() else []

    def agent(self, form: str, order: str) -> Running:
        argv = [sys.executable, "-m", "tests.flows.refunding_agent", form, order, str(self.ledger)]
        env = {
            "RECOVERY_OPS_URL": f"http://127.0.0.1:{self.port}",
            "RECOVERY_OPS_KEY": self.key,
            "RECOVERY_OPS_DIR": str(self.folder / order),
        }
        return Running(argv, env=env, folder=ROOT)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """What the API answers."""
        headers = {"Authorization": f"Bearer {self.desk_key}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1/{path}", content, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def questions(self) -> dict[str, int]:
        """The number of each open question, by the order that it is about."""
        found = self.ask("escalations?queue=refunds")["escalations"]
        return {one["message"].split()[2]: int(one["number"]) for one in found}
