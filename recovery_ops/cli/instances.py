"""The command line about several instances at once: label them, retire those that are gone, pause or stop them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recovery_ops.cli.words import DONE, REASON_HELP, REFUSED, Asking, Say

_PATH = "/api/v1/fleet/instances"
_WORDS = {
    "label": "add or remove labels",
    "retire": "mark instances as gone until their next report",
    "restore": "undo the retirement",
}
_PAUSING = {
    "pause": "pause new runs; runs in flight continue",
    "stop": "abort runs in flight, reject new runs and calls outside of runs",
    "resume": "resume new runs",
}


def add_words(verbs: Any, seconds: Any) -> None:
    """The verb `instances` and what can be done to them; `seconds` reads a length of time."""
    instances = verbs.add_parser(
        "instances", help="several instances at once: label, retire, restore, pause, stop, resume, paused"
    )
    words = instances.add_subparsers(dest="word", required=True)
    for word, brief in _WORDS.items():
        one = words.add_parser(word, help=brief)
        one.add_argument("instances", nargs="+", metavar="service/instance")
        if word == "label":
            one.add_argument("--labels", required=True, help="separated by commas; a minus removes a label")
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")
    for word, brief in _PAUSING.items():
        one = words.add_parser(word, help=brief)
        one.add_argument("targets", nargs="+", metavar="service[/instance]", help="no instance: the whole service")
        if word == "stop":
            one.add_argument("--for", dest="lasts", type=seconds, metavar="TIME", help="duration of the stop (1h)")
        if word == "pause":
            ends = one.add_mutually_exclusive_group()
            ends.add_argument("--for", dest="lasts", type=seconds, metavar="TIME", help="duration of the pause (1h)")
            ends.add_argument("--until-resumed", action="store_true", help="no end; a user resumes it")
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")
    words.add_parser("paused", help="pauses and stops, and the progress of each instance")


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
        say(f"{halves[0]} names no instance; omit the slash for the whole service.")
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
    if options.word != "resume":
        body |= {"expires_in_s": options.lasts} if options.lasts else {}
    body |= {"dry_run": True} if options.dry_run else {}
    done = console.ask("POST", f"/api/v1/fleet/{options.word}", body)
    names = ", ".join(f"{one['service']}/{one['instance']}".rstrip("/") for one in done["pauses"])
    told = {"pause": "new runs paused", "stop": "stopped", "resume": "new runs resumed"}[options.word]
    if options.word != "resume":
        told = f"{told} {_until(done['pauses'][0])}"
    if done["dry_run"]:
        say(f"Dry run, nothing changed. {names}: {told}.")
    else:
        already = " already" if done["was_already"] else ""
        say(f"{names}: {told}{already}, revision {done['revision']}.")
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
            say(f"  {name} stopped reporting; applies the change when it reconnects")
    if not found:
        say("No paused runs.")
    return DONE


def _until(pause: Mapping[str, Any]) -> str:
    return f"until {pause['expires_at']}" if pause["expires_at"] else "until resumed"


def _told(result: Mapping[str, Any]) -> str:
    if "problem" in result:
        return f"rejected: {result['problem']['detail']}"
    done = result["done"]
    if "labels" in done:
        what = ", ".join(done["labels"]) or "no label"
    else:
        what = "retired" if done["retired_at"] else "restored"
    already = " (already so)" if done["was_already"] else ""
    return f"{what}{already}{' (dry run, nothing changed)' if done['dry_run'] else ''}"
