"""The command line about the demonstration: its state, and its removal."""

from __future__ import annotations

import argparse
from typing import Any

from recovery_ops.cli.words import DONE, REFUSED, Asking, Say

_PATH = "/api/v1/demonstration"


def add_words(verbs: Any) -> None:
    """The verb `demonstration`."""
    demonstration = verbs.add_parser("demonstration", help="the demonstration: show, remove")
    words = demonstration.add_subparsers(dest="word", required=True)
    words.add_parser("show", help="its generated history and the number of its events")
    remove = words.add_parser("remove", help="stop it and delete all data of its environment")
    remove.add_argument("--confirm", metavar="ENVIRONMENT", help="repeated name of its environment")
    remove.add_argument("--reason", help="recorded in the audit log (default: done on the command line)")
    remove.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    found = console.ask("GET", _PATH)
    environment, count = found["environment"], f"{found['events']:,} events"
    if options.word == "show":
        start, end = found["history_start"][:19], found["history_end"][:19]
        say(f"{environment}: {count}; generated history {start} to {end} UTC")
        if found["removed_at"]:
            say(f"removed {found['removed_at'][:19]} UTC; {'deleted' if found['emptied_at'] else 'being deleted'}")
        return DONE
    if not options.confirm:
        say(f"All data of {environment} would be deleted: {count}. Repeat with --confirm {environment}.")
        return REFUSED
    body: dict[str, Any] = {"reason": options.reason or "done on the command line", "confirm": options.confirm}
    done = console.ask("POST", f"{_PATH}/remove", body | ({"dry_run": True} if options.dry_run else {}))
    say("Nothing was changed." if done["dry_run"] else f"Removed: {count} of {environment} are being deleted.")
    return DONE
