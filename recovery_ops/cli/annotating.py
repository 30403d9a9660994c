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
    note = verbs.add_parser("annotate", help="add an annotation to the time axis")
    note.add_argument("note", help="text: 'deploy 2.8.1'")
    note.add_argument("--at", metavar="MOMENT", help="time, ISO 8601 (now)")
    lasts = note.add_mutually_exclusive_group()
    lasts.add_argument("--until", metavar="MOMENT", help="end, ISO 8601")
    lasts.add_argument("--goes-on", action="store_true", help="no end until `annotations end`")
    note.add_argument("--operation", help="its breaker")
    note.add_argument("--tag", action="append", default=[], dest="tags", help="may be repeated")
    annotations = verbs.add_parser("annotations", help="annotations: list, end, remove")
    words = annotations.add_subparsers(dest="word", required=True)
    listed = words.add_parser("list", help="newest of the last 24 h")
    add_paging(listed)
    listed.add_argument("--tag", help="only this tag")
    for name, told in (("from", "start, ISO 8601 (24 h ago)"), ("to", "end, ISO 8601 (now)")):
        listed.add_argument(f"--{name}", dest=f"{name}_", metavar="MOMENT", help=told)
    for word, brief in (("end", "end an annotation now"), ("remove", "remove an annotation")):
        words.add_parser(word, help=brief).add_argument("number", type=int)
    for one in (note, words.choices["end"], words.choices["remove"]):
        one.add_argument("--reason", help="recorded in the audit log (default: done on the command line)")
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


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
