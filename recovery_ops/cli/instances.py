"""The command line about several instances at once: label them, retire those that are gone, miss one again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recovery_ops.cli.words import DONE, REFUSED, Asking, Say

_PATH = "/api/v1/fleet/instances"
_WORDS = {
    "label": "give them labels, or take some away",
    "retire": "they are gone: nothing misses them any more, until they speak again",
    "restore": "miss those again that were retired",
}


def add_words(verbs: Any) -> None:
    """The verb `instances` and what can be done to them."""
    instances = verbs.add_parser("instances", help="several instances at once: label, retire, restore")
    words = instances.add_subparsers(dest="word", required=True)
    for word, brief in _WORDS.items():
        one = words.add_parser(word, help=brief)
        one.add_argument("instances", nargs="+", metavar="service/instance")
        if word == "label":
            one.add_argument("--labels", required=True, help="separated by commas; behind a minus: taken away")
        one.add_argument("--reason", required=True, help="at least 10 characters, kept in the audit log")
        one.add_argument("--dry-run", action="store_true", help="check everything, write nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words, and say what became of each."""
    named = [one.partition("/") for one in options.instances]
    body: dict[str, Any] = {
        "verb": options.word,
        "instances": [{"service": service, "instance": instance} for service, _, instance in named],
        "reason": options.reason,
    }
    body |= {"labels": options.labels} if options.word == "label" else {}
    body |= {"dry_run": True} if options.dry_run else {}
    found = console.ask("POST", _PATH, body)
    for result in found["results"]:
        say(f"{result['service']}/{result['instance']}: {_told(result)}")
    return REFUSED if found["refused"] else DONE


def _told(result: Mapping[str, Any]) -> str:
    if "problem" in result:
        return f"refused. {result['problem']['detail']}"
    done = result["done"]
    if "labels" in done:
        what = ", ".join(done["labels"]) or "no label"
    else:
        what = "is not missed" if done["retired_at"] else "is missed"
    already = " (it was so already)" if done["was_already"] else ""
    return f"{what}{already}{' (nothing was changed)' if done['dry_run'] else ''}"
