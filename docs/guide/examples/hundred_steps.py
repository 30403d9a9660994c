"""A hundred payouts in one workflow, killed with SIGKILL at the 47th and started again: each is made once.

Run it: `python docs/guide/examples/hundred_steps.py`. It starts itself as a process, which kills itself between the
payout and its checkpoint, the worst moment there is; then it goes on. Nothing sleeps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery_ops.rules.events import CheckpointRestored, CheckpointSaved
from recovery_ops.runtime import Recovery, Workflow, attempt
from recovery_ops.runtime.testing import Lab

STEPS = 100
KILLED_AT = 47


@dataclass
class Bank:
    """The other side. What it did stands in a file, so that it survives the death of whoever asked."""

    ledger: Path
    knows_keys: bool
    dies_after: int = 0

    def pay(self, number: int) -> str:
        """Make payout `number`; asked again with a key that it knows, it answers as it did the first time."""
        key = attempt().idempotency_key or ""
        if self.knows_keys and key in [line["key"] for line in self.lines()]:
            return f"receipt {number}"
        with self.ledger.open("a") as file:
            file.write(json.dumps({"number": number, "key": key}) + "\n")
        if number == self.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)  # the money has gone out, and nobody has noted it
        return f"receipt {number}"

    def find(self, number: int) -> str | None:
        """The receipt of a payout that was made."""
        made = [line["number"] for line in self.lines()]
        return f"receipt {number}" if number in made else None

    def lines(self) -> list[dict[str, Any]]:
        """Everything that was done."""
        return [json.loads(line) for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def times(self) -> Counter[int]:
        """How often each payout was made."""
        return Counter(line["number"] for line in self.lines())


def pay_all(recovery: Recovery, bank: Bank) -> list[str]:
    """The workflow. Run again after whatever happened, it goes on where it was.

    Where the bank knows idempotency keys, the key of the step settles a payout that was begun; where it does not, the
    step is told how to find out.
    """
    already_done = None if bank.knows_keys else bank.find
    with Workflow("payouts", "2026-11", recovery=recovery) as flow:
        return [
            flow.step(f"pay-{number}", bank.pay, number, already_done=already_done) for number in range(1, STEPS + 1)
        ]


def killed(folder: Path, bank: str) -> int:
    """Run the workflow in a process of its own that dies on the way; the exit code is the signal, negative."""
    return subprocess.run([sys.executable, __file__, str(folder), bank], check=False).returncode


def the_bank(folder: Path, kind: str, dies_after: int = 0) -> Bank:
    """The bank that settles by `key`, or the one that has to be asked by `probe`."""
    return Bank(folder / "ledger", knows_keys=kind == "key", dies_after=dies_after)


def main() -> None:
    """Kill and resume, once for each way to settle what step 47 did."""
    for kind in ("key", "probe"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            code = killed(folder, kind)
            bank = the_bank(folder, kind)
            print(f"{kind}: killed by {signal.Signals(-code).name} after {len(bank.lines())} payouts")
            lab = Lab(directory=folder)
            receipts = pay_all(lab.recovery, bank)
            restored, saved = len(lab.events_of(CheckpointRestored)), len(lab.events_of(CheckpointSaved))
            print(f"{kind}: resumed, {restored} steps read, {saved} done, {len(receipts)} receipts")
            print(f"{kind}: made twice: {[number for number, times in bank.times().items() if times > 1]}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        pay_all(Lab(directory=sys.argv[1]).recovery, the_bank(Path(sys.argv[1]), sys.argv[2], dies_after=KILLED_AT))
    else:
        main()
