"""The command line about outages: list, show, note, ask people, merge, split, set apart, take back; over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from recovery_ops.cli.looking import range_of
from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/capacity"
_NARROWED = {
    "provider": "only this provider",
    "model": "only this model",
    "region": "only this region",
    "code": "only this HTTP status: 529",
    "owner": "only this attribution: provider, quota, network, unreachable",
    "breaker": "only incidents that opened this breaker",
    "service": "only incidents that affected this service",
    "runs": "least number of affected runs",
    "lasted_s": "least duration in seconds",
}


def add_words(verbs: Any) -> None:
    """The verb `capacity` and what can be done with outages."""
    capacity = verbs.add_parser("capacity", help="incidents: list, show, note, escalate, merge …")
    words = capacity.add_subparsers(dest="word", required=True)
    listed = words.add_parser("list", help="newest of the last 24 h")
    add_paging(listed)
    listed.add_argument("--going-on", action="store_true", help="only ongoing incidents")
    for part, told in _NARROWED.items():
        listed.add_argument(f"--{part.replace('_', '-')}", dest=part, help=told)
    for name, told in (("from", "start, ISO 8601 (24 h ago)"), ("to", "end, ISO 8601 (now)")):
        listed.add_argument(f"--{name}", dest=f"{name}_", metavar="MOMENT", help=told)
    words.add_parser("show", help="one incident with its impact").add_argument("number", type=int)
    merge = words.add_parser("merge", help="merge incidents; the lowest number remains")
    merge.add_argument("numbers", type=int, nargs="+", metavar="number")
    split = words.add_parser("split", help="split an incident at a time")
    split.add_argument("--at", required=True, metavar="MOMENT", help="time, ISO 8601: 2026-01-31T14:05:00Z")
    apart = words.add_parser("apart", help="unmerge an incident that was merged automatically")
    undo = words.add_parser("undo", help="undo a merge or split; its number is in `show`")
    note = words.add_parser("note", help="comment; the reason is the text")
    escalate = words.add_parser("escalate", help="escalate an incident to a queue; one open escalation per incident")
    escalate.add_argument("--queue", required=True)
    escalate.add_argument("--question", required=True, help="question to the queue")
    escalate.add_argument("--severity", help="severity (default: by the policy)")
    for one in (split, apart, undo, note, escalate):
        one.add_argument("number", type=int)
    for one in (merge, split, apart, undo, note, escalate):
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        asked = {part: said for part in _NARROWED if (said := getattr(options, part))}
        asked |= range_of(options) | ({"going_on": "true"} if options.going_on else {})
        path = f"{_PATH}/events" + (f"?{urlencode(asked)}" if asked else "")
        say_rows(console, path, "events", options, lambda one: [_line(one)], say, nothing="No outage in this range.")
        return DONE
    if options.word == "show":
        return _show(console, options, say)
    body: dict[str, object] = {"reason": options.reason} | ({"dry_run": True} if options.dry_run else {})
    path = f"{_PATH}/events/{getattr(options, 'number', 0)}/{options.word}"
    if options.word == "merge":
        path, body = f"{_PATH}/events/merge", body | {"numbers": options.numbers}
    elif options.word == "split":
        body["at"] = options.at
    elif options.word == "undo":
        path = f"{_PATH}/arrangements/{options.number}/undo"
    elif options.word == "escalate":
        body |= {name: said for name in ("queue", "question", "severity") if (said := getattr(options, name))}
    done = console.ask("POST", path, body)
    noted = "Nothing was changed. It would be: " if done["dry_run"] else ""
    noted = noted or ("It was so already: " if done["was_already"] else "")
    question = f": ESC-{done['escalation']['number']}" if "escalation" in done and not done["dry_run"] else ""
    say(f"{noted}{options.word} CE-{done.get('event', options.number)}{question}")
    return DONE


def _show(console: Asking, options: argparse.Namespace, say: Say) -> int:
    found = console.ask("GET", f"{_PATH}/events/{options.number}")
    say(_line(found["event"]))
    for part in found["parts"]:
        say(f"  part {_line(part)}")
    for one in found["arrangements"]:
        about = "" if one["other"] is None else f" and CE-{one['other']}"
        say(f"  {one['kind']} {one['number']}: CE-{one['event']}{about}, by {one['made_by']}: {one['reason']}")
    for number in found["escalations"]:
        say(f"  asked about in ESC-{number}")
    for one in found["notes"]:
        say(f"  {one['at'][:19]} {one['by']}: {one['text']}")
    for name in ("operations", "breakers_opened", "services"):
        if told := found["event"][name]:
            say(f"  {name.replace('_', ' ')}: {', '.join(f'{one} {count}' for one, count in told.items())}")
    say(f"  for customers: {found['customer_words']}")
    return DONE


def _line(one: Mapping[str, Any]) -> str:
    """`CE-3 helios large: provider, 14 min, over; 1,204 failures in 31 runs`."""
    over = "over" if one["is_over"] else "so far"
    what = "not read yet" if one["failures"] is None else f"{one['failures']} failures in {one['runs']} runs"
    least = "at least " if one["is_partial"] else ""
    return (
        f"CE-{one['number']} {one['name']}: {one['owner_words']}; from {one['started'][:19]}, "
        f"{one['lasted_s'] / 60:.0f} min, {over}; {least}{what}"
    )
