"""The command line about questions to people: list, show, and do what people do about one or many; over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from recovery_ops.cli.words import DONE, REASON_HELP, REFUSED, Asking, Fetching, Say, add_paging, keep_file, say_rows

_PATH = "/api/v1/escalations"
_SEVERITIES = ("high", "normal", "low")
_TABS = ("open", "unacknowledged", "mine", "snoozed", "resolved")
_ACTS = {
    "acknowledge": "acknowledge an escalation",
    "assign": "assign to a user",
    "snooze": "snooze an escalation",
    "escalate": "move to another queue",
    "step": "escalate to a level now; --dry-run shows its targets",
    "note": "comment",
    "entry": "add an entry to the timeline",
    "label": "add or remove labels",
    "merge": "merge into another escalation",
    "approve": "approve; a waiting run continues",
    "edit": "approve with another text",
    "reject": "reject; a waiting run receives the rejection",
    "resolve": "resolve",
    "reopen": "reopen",
}


def add_words(verbs: Any, seconds: Callable[[str], float]) -> None:
    """The verb `escalations` and what can be done with them; `seconds` reads a length of time."""
    escalations = verbs.add_parser("escalations", help="escalations: list, show, acknowledge, approve, resolve …")
    words = escalations.add_subparsers(dest="word", required=True)
    shown = words.add_parser("list", help="escalations of a tab, most urgent first")
    shown.add_argument("--tab", default="open", choices=_TABS)
    shown.add_argument("--queue", help="only this queue")
    add_paging(shown)
    shown.add_argument("--owner", help="only this owner; `nobody`: unassigned")
    shown.add_argument("--label", help="only with this label")
    shown.add_argument("--service", help="only this agent")
    shown.add_argument("--category", help="only this category of failures")
    shown.add_argument("--due", choices=("late", "soon"), help="only overdue ones, or those due within 15 minutes")
    shown.add_argument("--severity", choices=_SEVERITIES, help="only this severity")
    shown.add_argument("--age", help="least age: 90m, 4h, 3d")
    shown.add_argument("--provider", help="only this provider")
    shown.add_argument("--step", help="only this escalation level: 0, 1 …")
    words.add_parser("show", help="one escalation with its timeline").add_argument("number", type=int)
    told = words.add_parser("post-mortem", help="post-mortem of an escalation")
    told.add_argument("number", type=int)
    told.add_argument("--json", action="store_true", help="JSON instead of Markdown")
    told.add_argument("--to", dest="file", metavar="FILE", help="new file (default: standard output)")
    for word, brief in _ACTS.items():
        one = words.add_parser(word, help=brief)
        one.add_argument("numbers", type=int, nargs="+", metavar="number")
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")
        if word in ("assign", "escalate"):
            one.add_argument("--to", required=True, help="name of a user" if word == "assign" else "name of a queue")
        if word == "entry":
            one.add_argument("--at", dest="happened_at", metavar="MOMENT", help="time: 2026-11-23T14:02:00Z (now)")
        if word == "snooze":
            one.add_argument(
                "--for", dest="for_s", type=seconds, default=3600.0, metavar="TIME", help="duration: 30m, 2h … (1h)"
            )
        if word == "label":
            one.add_argument("--labels", required=True, help="separated by commas; a minus removes a label")
        if word == "step":
            one.add_argument("--step", required=True, type=int, help="number of the level, from 1")
        if word == "merge":
            one.add_argument("--into", required=True, type=int, help="number of the other")
        if word in ("approve", "reject", "edit"):
            one.add_argument("--text", required=word == "edit", help="answer to the run")


def run(console: Fetching, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        return _list(console, options, say)
    if options.word == "show":
        return _show(console, options, say)
    if options.word == "post-mortem":
        return _post_mortem(console, options, say)
    return _act(console, options, say)


def _list(console: Asking, options: argparse.Namespace, say: Say) -> int:
    chosen = {
        name: value
        for name in ("queue", "severity", "owner", "label", "service", "category", "due", "age", "provider", "step")
        if (value := getattr(options, name))
    }
    path = f"{_PATH}?{urlencode({'tab': options.tab, **chosen})}"
    found = say_rows(console, path, "escalations", options, lambda one: [_line(one)], say)
    counts = ", ".join(f"{count} {name}" for name, count in found["counts"].items())
    say(f"{found['environment']}: {counts}")
    return DONE


def _show(console: Asking, options: argparse.Namespace, say: Say) -> int:
    found = console.ask("GET", f"{_PATH}/{options.number}")
    one = found["escalation"]
    say(_line(one))
    say(f"  {one['asks']}")
    if one["message"] and one["message"] != one["asks"]:
        say(f"  “{one['message']}”")
    if not one["resolved_at"]:
        say(f"  Default action at {one['resolving']['ends']}: {one['if_ignored']}.")
    for step in found["asked_when"]["steps"]:
        say(f"  {_asked_when(step)}")
    for note in found["story"]:
        say(f"  {note['at']} {note['by']} ({note['verb']}): {note['text']}")
    return DONE


def _post_mortem(console: Fetching, options: argparse.Namespace, say: Say) -> int:
    path = f"{_PATH}/{options.number}/post-mortem{'' if options.json else '?as=md'}"
    if options.file is not None:
        return keep_file(console, path, options.file, say)
    say(b"".join(console.pieces(path)).decode())
    return DONE


def _asked_when(step: Mapping[str, Any]) -> str:
    """Who was asked, or will be if nobody takes it before."""
    if step["asked_at"]:
        return f"{step['asked_at']} {step['who']} was asked"
    if step["due_at"]:
        return f"{step['due_at']} {step['who']} is notified, unless it is acknowledged before"
    return f"{step['who']} is not asked while the clock stands"


def _act(console: Asking, options: argparse.Namespace, say: Say) -> int:
    names = ("reason", "dry_run", "to", "for_s", "into", "step", "text", "labels", "happened_at")
    body = {name: value for name in names if (value := getattr(options, name, None)) is not None and value is not False}
    found = console.ask("POST", _PATH, {**body, "verb": options.word, "numbers": options.numbers})
    for result in found["results"]:
        say(_told(result, options.word))
    return REFUSED if found["refused"] else DONE


def _told(result: Mapping[str, Any], word: str) -> str:
    name = f"ESC-{result['number']}"
    if "problem" in result:
        return f"{name}: refused. {result['problem']['detail']}"
    done = result["done"]
    if done["was_already"]:
        return f"{name}: it was so already"
    one = done["escalation"]
    tried = " (nothing was changed)" if done["dry_run"] else ""
    if "reaches" in done:
        tried = f", reaches {done['reaches']}{tried}"
    return f"{name}: {word}{tried}; {one['resolution'] or 'open'}, owner {one['assigned_to'] or 'unassigned'}"


def _line(one: Mapping[str, Any]) -> str:
    late = " late" if one["acknowledging"]["is_breached"] or one["resolving"]["is_breached"] else ""
    standing = one["resolution"] or f"due {one['resolving']['ends']}{late}"
    waits = ", a run waits" if one["ticket"] and not one["resolution"] else ""
    owner = one["assigned_to"] or "unassigned"
    return f"ESC-{one['number']} [{one['severity']}] {one['title']} ({one['queue']}): {standing}, owner {owner}{waits}"
