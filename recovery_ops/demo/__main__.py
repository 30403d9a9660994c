"""The whole demonstration: a provider, a fleet of agents and an operator as processes, until standard input ends.

They stay in our process group, so that whoever has to kill us gets them all.

RECOVERY_OPS_URL=… RECOVERY_OPS_KEY=… python -m recovery_ops.demo
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

STOP_WITHIN_S = 3.0
"""For all members together: whoever started us waits five seconds."""


_SPECIAL = {
    # One that no policy can have retry more often: what is desired and what is so are not always one.
    "research-agent-02": ("--max-retries", "2"),
    "research-agent-03": ("--translates",),
}


class Fleet:
    """Processes that end together; standard input of each is a pipe, so that none outlives this one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._members: list[subprocess.Popen[str]] = []

    def start(self, module: str, *arguments: str, name: str, wants_answer: bool = False) -> str:
        """Start a member; its first line of output where that is wanted. Its log is `<name>.log`."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / f"{name}.log").open("w") as log:
            member = subprocess.Popen(  # our own modules, with our own arguments
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if wants_answer else log,
                stderr=log,
                text=True,
                env=os.environ | {"RECOVERY_OPS_DIR": str(self._directory)},
            )
        self._members.append(member)
        return member.stdout.readline().strip() if wants_answer and member.stdout else ""

    def stop(self) -> None:
        """End everyone: politely, and after a while not."""
        for member in reversed(self._members):
            if member.stdin:
                member.stdin.close()
            member.terminate()
        end_at = time.monotonic() + STOP_WITHIN_S
        for member in self._members:
            try:
                member.wait(timeout=max(0.0, end_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
                member.wait()
            if member.stdout:
                member.stdout.close()


def stop_at_end_of_input(stop: SimpleQueue[None]) -> None:
    """Whoever started us has ended, or wants us to."""
    sys.stdin.read()
    stop.put(None)


def main(arguments: list[str]) -> None:
    """Start the fleet and keep it until this process is told to end."""
    parser = argparse.ArgumentParser(prog="recovery_ops.demo")
    parser.add_argument("--research", type=int, default=5, help="how many research agents")
    parser.add_argument("--support", type=int, default=4, help="how many support agents")
    said = parser.parse_args(arguments)
    # Not an Event: set by a handler while the end of input sets it too, it waits for itself for ever.
    stop: SimpleQueue[None] = SimpleQueue()
    signal.signal(signal.SIGINT, lambda *_: stop.put(None))
    signal.signal(signal.SIGTERM, lambda *_: stop.put(None))
    fleet = Fleet(Path(os.environ.get("RECOVERY_OPS_DEMO_DIR", ".data/demo")))
    try:
        if port := os.environ.get("RECOVERY_OPS_DEMO_PORT"):
            mail_port = os.environ["RECOVERY_OPS_DEMO_MAIL_PORT"]
            fleet.start("recovery_ops.demo.receiver", "--port", port, "--mail-port", mail_port, name="receiver")
        provider = fleet.start("recovery_ops.demo.provider", name="provider", wants_answer=True)
        for service, count in (("research-agent", said.research), ("support-agent", said.support)):
            for number in range(1, count + 1):
                name = f"{service}-{number:02}"
                fleet.start(
                    "recovery_ops.demo.agent",
                    *("--provider", provider, "--service", service, "--instance", name),
                    *_SPECIAL.get(name, ()),
                    name=name,
                )
        if os.environ.get("RECOVERY_OPS_DEMO_OPERATOR_KEY"):
            fleet.start("recovery_ops.demo.operator", name="operator")
        threading.Thread(target=stop_at_end_of_input, args=(stop,), daemon=True).start()
        stop.get()
    finally:
        fleet.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
