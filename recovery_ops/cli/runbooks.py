"""The command line about the steps for people: read and write them, and tick them for a question."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/runbooks"


def add_words(verbs: Any) -> None:
    """The verb `runbooks`."""
    words = verbs.add_parser("runbooks", help="runbooks: list, show, save, remove, steps, tick, untick")
    words = words.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="categories with a runbook"))
    show = words.add_parser("show", help="runbook of a category")
    save = words.add_parser("save", help="write a runbook")
    save.add_argument("--file", required=True, help="Markdown, one line with - per step; - is standard input")
    save.add_argument("--owner", help="owner of the runbook")
    save.add_argument("--review-on", metavar="DAY", help="date of the next review: 2026-12-31")
    remove = words.add_parser("remove", help="delete a runbook")
    for one in (show, save, remove):
        one.add_argument("category", help="category: timeout, rate_limited …")
    steps = words.add_parser("steps", help="runbook steps of an escalation")
    ticked = [
        words.add_parser("tick", help="mark a step as done"),
        words.add_parser("untick", help="mark a step as open"),
    ]
    for one in (steps, *ticked):
        one.add_argument("number", type=int, help="number of the escalation")
    for one in ticked:
        one.add_argument("step", help="key or text of the step")
    for one in (save, remove):
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        say_rows(console, _PATH, "runbooks", options, lambda one: [_line(one)], say, nothing="No steps are written.")
        return DONE
    if options.word in ("steps", "tick", "untick"):
        return _steps(console, options, say)
    path = f"{_PATH}/{quote(options.category, safe='')}"
    if options.word == "show":
        say(console.ask("GET", path)["runbook"]["markdown"] or "No steps are written for it.")
        return DONE
    body: dict[str, Any] = {"reason": options.reason, "markdown": ""} | ({"dry_run": True} if options.dry_run else {})
    if options.word == "save":
        body["markdown"] = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
        body |= {name: said for name in ("owner", "review_on") if (said := getattr(options, name))}
    done = console.ask("PUT", path, body)
    say(f"{'Nothing was changed. It would be: ' if done['dry_run'] else ''}{_line(done['runbook'])}")
    return DONE


def _steps(console: Asking, options: argparse.Namespace, say: Say) -> int:
    path = f"/api/v1/escalations/{options.number}/steps"
    if options.word == "steps":
        found = console.ask("GET", path)
    else:
        found = console.ask(
            "POST", path, {"reason": "done on the command line", "step": options.step, "done": options.word == "tick"}
        )
    for one in found["steps"]:
        by = f" ({one['by']}, {one['at'][:19]} UTC)" if one["done"] else ""
        say(f"[{'x' if one['done'] else ' '}] {one['key']} {one['step']}{by}")
    if not found["steps"]:
        say("No steps are written for it.")
    return DONE


def _line(one: Mapping[str, Any]) -> str:
    """`timeout: 3 steps, owner ana, review by 2026-12-31, last used 2026-11-22T04:00:00 UTC`."""
    owner = f", owner {one['owner']}" if one["owner"] else ""
    review = f", review by {one['review_on']}" if one["review_on"] else ""
    used = f"last used {one['used_at'][:19]} UTC" if one["used_at"] else "never used"
    return f"{one['category']}: {len(one['steps'])} steps{owner}{review}, {used}"
