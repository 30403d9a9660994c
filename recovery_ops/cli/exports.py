"""The command line about exports: a long list as a file, asked for, watched, fetched and called off."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recovery_ops.cli.words import DONE, Fetching, Say, add_paging, keep_file, say_rows

_PATH = "/api/v1/exports"
_LISTS = ("audit", "escalations", "runs")
_FORMATS = ("csv", "json", "ndjson")


def add_words(verbs: Any) -> None:
    """The verb `exports`."""
    words = verbs.add_parser("exports", help="exports: list, start, show, fetch, cancel")
    words = words.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="your exports, newest first"))
    start = words.add_parser("start", help="start an export")
    start.add_argument("list", choices=_LISTS)
    start.add_argument(
        "--narrowed", metavar="QUERY", help="filters, as in the address of the page: 'status=failed&agent=research'"
    )
    start.add_argument("--format", choices=_FORMATS, default="csv")
    start.add_argument(
        "--column", action="append", default=[], dest="columns", help="only this column; may be repeated"
    )
    start.add_argument("--from", dest="start", metavar="MOMENT", help="start, ISO 8601; required for runs")
    start.add_argument("--to", dest="end", metavar="MOMENT", help="end, ISO 8601")
    start.add_argument("--dry-run", action="store_true", help="check; change nothing")
    fetch = words.add_parser("fetch", help="download the file")
    fetch.add_argument("--to", dest="file", required=True, metavar="FILE", help="new file")
    cancel = words.add_parser("cancel", help="cancel an export")
    for one in (words.add_parser("show", help="progress of an export"), fetch, cancel):
        one.add_argument("number", type=int)
    for one in (start, cancel):
        one.add_argument("--reason", help="recorded in the audit log (default: done on the command line)")


def run(console: Fetching, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        say_rows(console, _PATH, "exports", options, lambda one: [_line(one)], say, nothing="You asked for none.")
        return DONE
    if options.word == "fetch":
        return keep_file(console, f"{_PATH}/{options.number}/file", options.file, say)
    if options.word == "show":
        say(_line(console.ask("GET", f"{_PATH}/{options.number}")["export"]))
        return DONE
    reason = {"reason": options.reason or "done on the command line"}
    if options.word == "cancel":
        say(_line(console.ask("DELETE", f"{_PATH}/{options.number}", reason)["export"]))
        return DONE
    said = {name: getattr(options, name) for name in ("list", "narrowed", "format", "columns", "start", "end")}
    body = reason | {name: value for name, value in said.items() if value}
    done = console.ask("POST", _PATH, body | ({"dry_run": True} if options.dry_run else {}))
    say(f"{'Nothing was changed. It would be: ' if done['dry_run'] else ''}{_line(done['export'])}")
    return DONE


def _line(one: Mapping[str, Any]) -> str:
    """`3 runs as csv: running, 1,200 of 40,000, 310 rows`."""
    narrowed = f" ({one['narrowed']})" if one["narrowed"] else ""
    problem = f"; {one['problem']}" if one["problem"] else ""
    cut = ", cut there" if one["is_cut"] else ""
    far = f"{one['done']:,} of {one['total']:,}, {one['rows']:,} rows{cut}"
    return f"{one['number']} {one['list']} as {one['format']}{narrowed}: {one['state']}, {far}{problem}"
