"""The command line about failures that nobody could name: list them, propose a rule, or leave them so."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, every, say_rows
from recovery_ops.rules.policy.classification_rules import MAY_BE_SAID, PATTERNS
from recovery_ops.rules.url_names import part_of

_UNCLASSIFIED = "/api/v1/failures/unclassified"


def add_words(verbs: Any) -> None:
    """The verb `unclassified`, and what can be done with a cause."""
    words = verbs.add_parser("unclassified", help="unknown failures: list, propose, dismiss, reopen")
    words = words.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="unknown failures of the last 7 days, most frequent first"))
    propose = words.add_parser("propose", help="draft a proposal with a rule and show its matches")
    dismiss = words.add_parser("dismiss", help="leave the failure unknown")
    reopen = words.add_parser("reopen", help="reopen a dismissed failure")
    propose.add_argument(
        "--category", required=True, choices=list(MAY_BE_SAID), metavar="CATEGORY", help="category of the failure"
    )
    propose.add_argument("--name", help="name of the rule")
    for part in PATTERNS:
        told = f"pattern of the {part.replace('_', ' ')} instead of the narrowest; empty: none"
        propose.add_argument(f"--{part.replace('_', '-')}", dest=part, help=told)
    for one in (propose, dismiss, reopen):
        one.add_argument("fingerprint")
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        nothing = "No unknown failures in the last 7 days."
        say_rows(console, _UNCLASSIFIED, "causes", options, lambda one: [_cause(one)], say, nothing=nothing)
        return DONE
    address = f"{_UNCLASSIFIED}/{quote(part_of(options.fingerprint), safe='')}"
    why = {"reason": options.reason} | ({"dry_run": True} if options.dry_run else {})
    if options.word != "propose":
        done = console.ask("POST", f"{address}/{options.word}", why)
        say(f"{_noted(done)}{options.fingerprint}: {done['cause']['state']}")
        return DONE
    rule = _rule(console, options)
    body = why | ({"category": options.category} if rule is None else {"rule": rule})
    if rule is not None:
        say(_matched(console.ask("POST", f"{_UNCLASSIFIED}/check", {"rule": rule})))
    done = console.ask("POST", f"{address}/propose", body)
    proposal = done["proposal"]
    say(f"{_noted(done)}proposal {proposal['number']}: {proposal['state']}, {proposal['title']}")
    return DONE


def _rule(console: Asking, options: argparse.Namespace) -> dict[str, Any] | None:
    """The draft with what was said instead; None where the console does not list the cause, and has to say so."""
    causes = every(console, _UNCLASSIFIED, "causes")
    draft = next((one["draft"] for one in causes if one["fingerprint"] == options.fingerprint), None)
    if draft is None:
        return None
    said = {part: given for part in PATTERNS if (given := getattr(options, part)) is not None}
    match = {part: pattern for part, pattern in {**draft["match"], **said}.items() if pattern}
    return {"name": options.name or draft["name"], "match": match, "category": options.category}


def _cause(one: Mapping[str, Any]) -> str:
    where = ", ".join(one["operations"])
    may_be = f"; suggested: {one['suggested']['category']}: {one['suggested']['because']}" if one["suggested"] else ""
    return f"{one['fingerprint']} {one['state']}: {one['failures']} x {one['message'] or '-'} (in {where}){may_be}"


def _matched(found: Mapping[str, Any]) -> str:
    return (
        f"matches {found['unknown'] + found['classified_otherwise']} of the newest {found['read']} failures of "
        f"7 days: {found['unknown']} unknown, {found['classified_otherwise']} with another category, which they keep"
    )


def _noted(done: Mapping[str, Any]) -> str:
    if done["dry_run"]:
        return "Dry run, nothing changed: "
    return "Already so: " if done["was_already"] else ""
