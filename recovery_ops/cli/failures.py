"""The command line about causes of failures: list them, decide about one or many, merge, split and take back."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from recovery_ops.cli.words import DONE, REASON_HELP, REFUSED, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/failures"
_BECAME = {
    "alone": "recovered by themselves",
    "second_best": "recovered by a fallback or with less",
    "helped": "recovered with a person's help",
    "lost": "lost",
}
_ACTS = {
    "assign": "assign to a user",
    "unassign": "remove the owner",
    "archive": "archive an issue",
    "resolve": "resolve an issue; a later failure is a regression",
    "reopen": "reopen",
}


def add_words(verbs: Any, seconds: Callable[[str], float]) -> None:
    """The verb `failures` and what can be done with them; `seconds` reads a length of time."""
    failures = verbs.add_parser("failures", help="issues: list, assign, archive, resolve, merge, split …")
    words = failures.add_subparsers(dest="word", required=True)
    shown = words.add_parser("list", help="issues of the last hours, most frequent first")
    add_paging(shown)
    shown.add_argument("--state", help="only this state: open, pending, regressed, returned, archived, resolved")
    for word, brief in _ACTS.items():
        one = _act_word(words, word, brief)
        one.add_argument("fingerprints", nargs="+", metavar="fingerprint")
        if word == "assign":
            one.add_argument("--to", required=True, help="name of a user")
        if word == "archive":
            until = one.add_mutually_exclusive_group(required=True)
            until.add_argument("--for", dest="for_s", type=seconds, metavar="TIME", help="duration: 2h, 7d …")
            until.add_argument("--more", type=int, metavar="N", help="until this number of further failures")
            until.add_argument("--escalating", action="store_true", help="until its failures per hour rise")
        if word == "resolve":
            when = one.add_mutually_exclusive_group()
            when.add_argument(
                "--next-version", action="store_true", help="only failures of a newer version are a regression"
            )
            when.add_argument(
                "--clean-runs", type=int, metavar="N", help="resolve it after this number of runs without it"
            )
    merge = _act_word(words, "merge", "merge issues; the first remains")
    merge.add_argument("fingerprints", nargs="+", metavar="fingerprint")
    split = _act_word(words, "split", "split an issue by the value of a field")
    split.add_argument("fingerprint")
    split.add_argument("--field", required=True, choices=("operation", "backend"))
    split.add_argument("--value", required=True)
    edit = _act_word(words, "edit", "change a merge or split; shows the affected issues of the last 7 days")
    edit.add_argument("number", type=int, help="number of the merge or split, in `list`")
    edit.add_argument("--into", help="of a merge: the remaining issue")
    edit.add_argument("--field", choices=("operation", "backend"), help="of a split: the field")
    edit.add_argument("--value", help="of a split: the value")
    undo = _act_word(words, "undo", "undo a merge or split")
    undo.add_argument("number", type=int, help="number of the merge or split, in `list`")
    note = _act_word(words, "note", "comment; the reason is the text")
    note.add_argument("fingerprint")
    notes = words.add_parser("notes", help="comments on an issue, newest first")
    notes.add_argument("fingerprint")


def _act_word(words: Any, word: str, brief: str) -> argparse.ArgumentParser:
    one: argparse.ArgumentParser = words.add_parser(word, help=brief)
    one.add_argument("--reason", default="", help=REASON_HELP)
    one.add_argument("--dry-run", action="store_true", help="check; change nothing")
    return one


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        return _list(console, options, say)
    if options.word == "notes":
        return _notes(console, options.fingerprint, say)
    names = ("reason", "to", "for_s", "more", "clean_runs", "fingerprint", "fingerprints", "into", "field", "value")
    flags = ("dry_run", "escalating", "next_version")
    body = {
        name: value
        for name in (*names, *flags)
        if (value := getattr(options, name, None)) is not None and (value is not False or name not in flags)
    }
    if options.word == "note":
        done = console.ask("POST", f"{_PATH}/notes", body)
        say(f"note {done['note']['fingerprint']}{_how(done)}")
        return DONE
    if options.word not in _ACTS:
        path = f"groupings/{options.number}/{options.word}" if options.word in ("undo", "edit") else options.word
        done = console.ask("POST", f"{_PATH}/{path}", body)
        say(f"{options.word}: {done['fingerprint']}{_how(done)}")
        for line in _preview(done["preview"]) if "preview" in done else ():
            say(line)
        return DONE
    found = console.ask("POST", _PATH, {**body, "verb": options.word})
    for result in found["results"]:
        say(_told(result))
    return REFUSED if found["refused"] else DONE


def _preview(told: Mapping[str, Any]) -> list[str]:
    lines = [
        f"  {one['failures']} failures of {one['from']} "
        + (f"are put together with {one['to']}" if one["is_together"] else f"are {one['to']}, a cause apart")
        for one in told["moves"]
    ]
    read = f"{'the newest ' if told['is_partial'] else ''}{told['read']} failures since {told['read_from']}"
    return [*(lines or ["  no failure moves"]), f"  by {read}"]


def _list(console: Asking, options: argparse.Namespace, say: Say) -> int:
    state = f"?state={quote(options.state, safe='')}" if options.state else ""
    found = say_rows(console, f"{_PATH}{state}", "failures", options, _cause, say)
    for rule in found["groupings"]:
        about = f" where {rule['field']} is {rule['value']}" if rule["kind"] == "split" else ""
        say(f"{rule['kind']} {rule['number']}: {rule['fingerprint']}{about} is {rule['into']}, by {rule['made_by']}")
    return DONE


def _notes(console: Asking, name: str, say: Say) -> int:
    found = console.ask("GET", f"{_PATH}/notes?fingerprint={quote(name, safe='')}")
    for one in found["notes"]:
        about = "" if one["fingerprint"] == found["fingerprint"] else f", on {one['fingerprint']}"
        say(f"{one['at'][:19]} {one['by']}{about}: {one['text']}")
    if not found["notes"]:
        say(f"nothing is noted on {found['fingerprint']}")
    return DONE


def _cause(one: Mapping[str, Any]) -> list[str]:
    owner = one["assigned_to"] or "unassigned"
    became = one["became"]
    told = ", ".join(f"{became[name]} {words}" for name, words in _BECAME.items() if became[name])
    return [
        f"{one['fingerprint']} {one['failures']} × {one['category']} in {', '.join(one['operations'])}",
        f"  {one['state']}{_clean_words(one)}, owner {owner}{_noted(one)}; last {one['last']}; “{one['message']}”",
        *([f"  its newest runs: {told}"] if told else []),
    ]


def _noted(one: Mapping[str, Any]) -> str:
    return f", {one['notes']} {'note' if one['notes'] == 1 else 'notes'}" if one["notes"] else ""


def _clean_words(one: Mapping[str, Any]) -> str:
    if one["clean_runs"] is None:
        return ""
    return f" ({one['clean_runs_seen']} of {one['clean_runs']} clean runs)"


def _told(result: Mapping[str, Any]) -> str:
    name = result["fingerprint"]
    if "problem" in result:
        return f"{name}: refused. {result['problem']['detail']}"
    done = result["done"]
    return f"{name}: {done['state']}, owner {done['assigned_to'] or 'unassigned'}{_how(done)}"


def _how(done: Mapping[str, Any]) -> str:
    already = " (it was so already)" if done["was_already"] else ""
    return f"{already} (nothing was changed)" if done["dry_run"] else already
