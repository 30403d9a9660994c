"""The command line about several instances at once: label them, retire those that are gone, pause their new work."""

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
_PAUSING = {
    "pause": "have them begin no new runs; those under way go on",
    "resume": "let them begin new runs again",
}


def add_words(verbs: Any, seconds: Any) -> None:
    """The verb `instances` and what can be done to them; `seconds` reads a length of time."""
    instances = verbs.add_parser(
        "instances", help="several instances at once: label, retire, restore, pause, resume, paused"
    )
    words = instances.add_subparsers(dest="word", required=True)
    for word, brief in _WORDS.items():
        one = words.add_parser(word, help=brief)
        one.add_argument("instances", nargs="+", metavar="service/instance")
        if word == "label":
            one.add_argument("--labels", required=True, help="separated by commas; behind a minus: taken away")
        one.add_argument("--reason", required=True, help="at least 10 characters, kept in the audit log")
        one.add_argument("--dry-run", action="store_true", help="check everything, write nothing")
    for word, brief in _PAUSING.items():
        one = words.add_parser(word, help=brief)
        one.add_argument("targets", nargs="+", metavar="service[/instance]", help="without an instance: all of it")
        if word == "pause":
            ends = one.add_mutually_exclusive_group()
            ends.add_argument("--for", dest="lasts", type=seconds, metavar="TIME", help="how long it lasts (1h)")
            ends.add_argument("--until-resumed", action="store_true", help="it ends when somebody resumes it")
        one.add_argument("--reason", required=True, help="at least 10 characters, kept in the audit log")
        one.add_argument("--dry-run", action="store_true", help="check everything, write nothing")
    words.add_parser("paused", help="who is asked to begin no new runs, and what each says of it")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words, and say what became of each."""
    if options.word == "paused":
        return _paused(console, say)
    if options.word in _PAUSING:
        return _pause(console, options, say)
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


def _pause(console: Asking, options: argparse.Namespace, say: Say) -> int:
    named = [one.partition("/") for one in options.targets]
    if halves := [f"{service}/" for service, slash, instance in named if slash and not instance]:
        say(f"Nothing was changed. {halves[0]} names no instance; without the slash it means all of the service.")
        return REFUSED
    body: dict[str, Any] = {
        "targets": [
            {"service": service, "instance": instance} if slash else {"service": service}
            for service, slash, instance in named
        ],
        "reason": options.reason,
    }
    if options.word == "pause":
        body |= {"until_resumed": True} if options.until_resumed else {}
        body |= {"expires_in_s": options.lasts} if options.lasts else {}
    body |= {"dry_run": True} if options.dry_run else {}
    done = console.ask("POST", f"/api/v1/fleet/{options.word}", body)
    names = ", ".join(f"{one['service']}/{one['instance']}".rstrip("/") for one in done["pauses"])
    told = "may begin new runs" if options.word == "resume" else f"no new runs {_until(done['pauses'][0])}"
    if done["dry_run"]:
        say(f"Nothing was changed. {names} would be told: {told}.")
    else:
        already = " already" if done["was_already"] else ""
        say(f"{names}: {told}{already}, from revision {done['revision']} on.")
    return DONE


def _paused(console: Asking, say: Say) -> int:
    found = console.ask("GET", "/api/v1/fleet/pauses")["activities"]
    for one in found:
        first = one["pauses"][0]
        why = f"resumed by {first['ended_by']}" if one["is_over"] else f"{first['by']}: {first['reason']}"
        say(f"{one['sentence']} ({why}, {'over' if one['is_over'] else _until(first)})")
        for told in one["instances"]:
            say(f"  {told['service']}/{told['instance']} {told['told']}: {told['detail']}")
        for name in one["not_there"]:
            say(f"  {name} not there: it hears of it when it is back")
    if not found:
        say("Nobody has paused new work.")
    return DONE


def _until(pause: Mapping[str, Any]) -> str:
    return f"until {pause['expires_at']}" if pause["expires_at"] else "until resumed"


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
