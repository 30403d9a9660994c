"""The command line about resets that go in steps: list, show, go on, cancel; over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/resets"


def add_words(verbs: Any) -> None:
    """The verb `resets` and what can be done with them."""
    resets = verbs.add_parser("resets", help="stepped resets: list, show, continue, cancel")
    words = resets.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="newest first"))
    words.add_parser("show", help="progress of a stepped reset").add_argument("number", type=int)
    for word, brief in (
        ("continue", "take the next step now"),
        ("cancel", "cancel the remaining steps"),
    ):
        one = words.add_parser(word, help=brief)
        one.add_argument("number", type=int)
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        say_rows(console, _PATH, "resets", options, lambda one: [line_of(one)], say)
        return DONE
    if options.word == "show":
        found = console.ask("GET", f"{_PATH}/{options.number}")
        say(line_of(found["reset"]))
        for member in found["members"]:
            say(f"  step {member['step']}: {_member(member)}")
        return DONE
    body: dict[str, Any] = {"reason": options.reason}
    if options.dry_run:
        body["dry_run"] = True
    done = console.ask("POST", f"{_PATH}/{options.number}/{options.word}", body)
    tried = " (nothing was changed)" if done["dry_run"] else ""
    say(f"{line_of(done['ramp'])}{tried}")
    return DONE


def line_of(one: Mapping[str, Any]) -> str:
    """One reset: `reset 3 of search_web: running, 4 of 40, steps 1 → 4 → 20 → 40; what it waits for`."""
    steps = " → ".join(str(step["count"]) for step in one["steps"])
    why = one["end_reason"] or one["said"]
    names = ", ".join(one["breakers"])
    return f"reset {one['number']} of {names}: {one['state']}, {one['reset']} of {one['total']}, steps {steps}" + (
        f"; {why}" if why else ""
    )


def _member(member: Mapping[str, Any]) -> str:
    where = f"{member['breaker']} on {member['service']}/{member['instance']}"
    if member["opened_after_s"] is not None:
        return f"{where}: opened again {member['opened_after_s']:.0f} s after its reset"
    if not member["is_reachable"]:
        return f"{where}: cannot be reached"
    if not member["has_applied"]:
        return f"{where}: has not said that it obeys"
    if member["closed_for_s"]:
        return f"{where}: closed for {member['closed_for_s']:.0f} s, {member['calls']} calls"
    return f"{where}: {member['state']}"
