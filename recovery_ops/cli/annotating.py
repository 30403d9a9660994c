"""The command line about annotations on the time axis: a deploy notes itself, a maintenance begins and ends."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from recovery_ops.cli.looking import range_of
from recovery_ops.cli.words import DONE, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/annotations"


def add_words(verbs: Any) -> None:
    """The verbs `annotate` and `annotations`."""
    note = verbs.add_parser("annotate", help="note something on the time axis: a deploy, a maintenance")
    note.add_argument("note", help="what people read there: 'deploy 2.8.1'")
    note.add_argument("--at", metavar="MOMENT", help="in ISO 8601 (now)")
    lasts = note.add_mutually_exclusive_group()
    lasts.add_argument("--until", metavar="MOMENT", help="it lasts until then")
    lasts.add_argument("--goes-on", action="store_true", help="it lasts until `annotations end`")
    note.add_argument("--operation", help="the breaker that it is about")
    note.add_argument("--tag", action="append", default=[], dest="tags", help="as often as needed")
    annotations = verbs.add_parser("annotations", help="what was noted on the time axis: list, end, remove")
    words = annotations.add_subparsers(dest="word", required=True)
    listed = words.add_parser("list", help="those of the last day, the newest first")
    add_paging(listed)
    listed.add_argument("--tag", help="only those with this tag")
    for name, told in (("from", "a moment in ISO 8601 (a day ago)"), ("to", "a moment in ISO 8601 (now)")):
        listed.add_argument(f"--{name}", dest=f"{name}_", metavar="MOMENT", help=told)
    for word, brief in (("end", "what goes on ends now"), ("remove", "take it from the time axis")):
        words.add_parser(word, help=brief).add_argument("number", type=int)
    for one in (note, words.choices["end"], words.choices["remove"]):
        one.add_argument("--reason", help="kept in the audit log (that it was done on the command line)")
        one.add_argument("--dry-run", action="store_true", help="check everything, write nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.verb == "annotations" and options.word == "list":
        asked = range_of(options) | ({"tag": options.tag} if options.tag else {})
        path = _PATH + (f"?{urlencode(asked)}" if asked else "")
        say_rows(console, path, "annotations", options, lambda one: [_line(one)], say, nothing="Nothing was noted.")
        return DONE
    body: dict[str, Any] = {"reason": options.reason or "done on the command line"}
    body |= {"dry_run": True} if options.dry_run else {}
    path = f"{_PATH}/{options.number}/{options.word}" if options.verb == "annotations" else _PATH
    if options.verb == "annotate":
        said = {name: getattr(options, name) for name in ("note", "at", "until", "goes_on", "operation", "tags")}
        body |= {name: value for name, value in said.items() if value}
    done = console.ask("POST", path, body)
    say(f"{'Nothing was changed. It would be: ' if done['dry_run'] else ''}{_line(done['annotation'])}")
    return DONE


def _line(one: Mapping[str, Any]) -> str:
    """`3 deploy 2.8.1 (deploy, eu): 2026-11-23T07:00:00 to 2026-11-23T07:10:00 UTC, ana`."""
    tags = f" ({', '.join(one['tags'])})" if one["tags"] else ""
    until = " so far" if one["goes_on"] else f" to {one['until'][:19]}" if one["until"] else ""
    about = f" of {one['operation']}" if one["operation"] else ""
    return f"{one['number']} {one['note']}{tags}{about}: {one['at'][:19]}{until} UTC, {one['by']}"
