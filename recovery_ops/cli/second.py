"""The command line about what waits for a second person: list, show, withdraw; over HTTP. Agreeing is for people."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/requests"


def add_words(verbs: Any) -> None:
    """The verb `requests` and what can be done with them."""
    requests = verbs.add_parser("requests", help="approval requests: list, show, withdraw")
    words = requests.add_subparsers(dest="word", required=True)
    listed = words.add_parser("list", help="requests, newest first")
    add_paging(listed)
    listed.add_argument("--state", help="only this state: waiting, glass …")
    words.add_parser("show", help="one request with its decision").add_argument("number", type=int)
    one = words.add_parser("withdraw", help="withdraw a request of this key")
    one.add_argument("number", type=int)
    one.add_argument("--reason", default="", help=REASON_HELP)


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        path = _PATH + (f"?{urlencode({'state': options.state})}" if options.state else "")
        say_rows(console, path, "requests", options, lambda one: [line_of(one)], say)
        return DONE
    if options.word == "show":
        one = console.ask("GET", f"{_PATH}/{options.number}")["request"]
        say(line_of(one))
        if one["decided_by"]:
            say(f"  {one['decided_by']}: {one['decision_reason'] or one['state']}")
        return DONE
    done = console.ask("POST", f"{_PATH}/{options.number}/reject", {"reason": options.reason})
    say(line_of(done["request"]))
    return DONE


def line_of(one: Mapping[str, Any]) -> str:
    """One request: `request 3: trip search_web, waiting until 2026-01-31T14:00:00 UTC; Ana: the reason`."""
    until = f" until {one['expires_at'][:19]} UTC" if one["state"] == "waiting" else ""
    act = one["act"].replace("_", " ")
    return f"request {one['number']}: {act} {one['about']}, {one['state']}{until}; {one['by']}: {one['reason']}"
