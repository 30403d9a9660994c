"""The command line about golden runs and feedback: what proposals are tried on, and what people found badly handled."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows
from recovery_ops.rules.policy.feedback import WORDS, Want

_GOLDEN = "/api/v1/policies/golden"
_FEEDBACK = "/api/v1/feedback"


def add_words(verbs: Any) -> None:
    """The verbs `golden` and `feedback`, and what can be done with each."""
    golden = verbs.add_parser("golden", help="golden runs: list, show, mark, drop")
    words = golden.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="the golden runs, newest first"))
    words.add_parser("show", help="one golden run with its recorded decisions").add_argument("number", type=int)
    mark = words.add_parser("mark", help="mark a run as golden; every proposal shows its effect on it")
    mark.add_argument("run", help="id of the run")
    mark.add_argument("--name", required=True, help="name of the golden run")
    mark.add_argument("--must", required=True, help="expected outcome, in words")
    drop = words.add_parser("drop", help="retire a golden run; no reason needed")
    drop.add_argument("number", type=int)
    feedback = verbs.add_parser("feedback", help="feedback about the policy: list, say, propose, close")
    words = feedback.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="newest entries"))
    say = words.add_parser("say", help="report a wrong reaction")
    say.add_argument("operation", help="name of the operation")
    wanted = ", ".join(f"{want}: {WORDS[want]}" for want in Want)
    say.add_argument("--want", required=True, choices=list(Want), metavar="WANT", help=wanted)
    for part in ("service", "run", "fingerprint"):
        say.add_argument(f"--{part}", help=f"{part} of the wrong reaction")
    propose = words.add_parser("propose", help="draft a proposal from an entry")
    close = words.add_parser("close", help="dismiss an entry")
    for one in (propose, close):
        one.add_argument("number", type=int)
    for one in (mark, say, propose, close):
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words of either verb."""
    return (_golden if options.verb == "golden" else _feedback)(console, options, say)


def _golden(console: Asking, options: argparse.Namespace, say: Say) -> int:
    if options.word == "list":
        nothing = "No golden runs yet; mark one with `golden mark RUN`."
        say_rows(console, _GOLDEN, "golden", options, lambda one: [_case(one)], say, nothing=nothing)
    elif options.word == "show":
        found = console.ask("GET", f"{_GOLDEN}/{options.number}")
        say(_case(found["golden"]))
        for call in found["calls"]:
            say(f"  {call['operation']}: {call['ending']}, {call['attempts']} attempts")
    elif options.word == "mark":
        body = _why(options) | {name: getattr(options, name) for name in ("run", "name", "must")}
        done = console.ask("POST", _GOLDEN, body)
        say(_noted(done) + _case(done["golden"]))
    else:
        say(_noted(console.ask("DELETE", f"{_GOLDEN}/{options.number}")) + f"golden run {options.number} retired")
    return DONE


def _feedback(console: Asking, options: argparse.Namespace, say: Say) -> int:
    if options.word == "list":
        nothing = "No feedback yet."
        say_rows(console, _FEEDBACK, "feedback", options, lambda one: [_entry(one)], say, nothing=nothing)
        return DONE
    if options.word == "propose":
        done = console.ask("POST", f"{_FEEDBACK}/{options.number}/propose", _why(options))
        proposal = done["proposal"]
        say(f"{_noted(done)}proposal {proposal['number']}: {proposal['state']}, {proposal['title']}")
        return DONE
    if options.word == "close":
        done = console.ask("POST", f"{_FEEDBACK}/{options.number}/close", _why(options))
    else:
        names = ("operation", "want", "service", "run", "fingerprint")
        more = {name: value for name in names if (value := getattr(options, name)) is not None}
        done = console.ask("POST", _FEEDBACK, _why(options) | more)
    say(_noted(done) + _entry(done["feedback"]))
    return DONE


def _case(one: Mapping[str, Any]) -> str:
    let_go = f", retired {one['retired_at'][:19]}" if one["retired_at"] else ""
    return f"golden run {one['number']} “{one['name']}”: {one['must']} (run {one['run']}, by {one['by']}{let_go})"


def _entry(one: Mapping[str, Any]) -> str:
    answer = f"{one['state']} as proposal {one['proposal']}" if one["proposal"] is not None else one["state"]
    return f"feedback {one['number']}: {one['operation']}, {WORDS[Want(one['want'])]}; {answer} (by {one['by']})"


def _noted(done: Mapping[str, Any]) -> str:
    if done["dry_run"]:
        return "Dry run, nothing changed: "
    return "Already so: " if done["was_already"] else ""


def _why(options: argparse.Namespace) -> dict[str, object]:
    return {"reason": options.reason} | ({"dry_run": True} if options.dry_run else {})
