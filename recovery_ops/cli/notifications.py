"""The command line about who is told what: look at channels, rules, chains and messages; test and switch; over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/notifications"
_NOUNS = ("channel", "rule", "chain")


def add_words(verbs: Any, seconds: Callable[[str], float]) -> None:
    """The verb `notifications` and what can be done with it."""
    notifications = verbs.add_parser("notifications", help="notifications: list, log, test, digest, mute …")
    words = notifications.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="channels, message rules and escalation policies"))
    log = words.add_parser("log", help="newest messages with their delivery")
    add_paging(log, 20)
    _acting(words.add_parser("test", help="send a test message"))
    digest = words.add_parser("digest", help="digest of a channel; with --every set it")
    digest.add_argument("number", type=int, help="number of the channel")
    digest.add_argument("--every", choices=("daily", "weekly", "never"))
    digest.add_argument("--at", help="time: 08:00")
    digest.add_argument(
        "--on", dest="weekday", type=int, choices=range(7), help="weekday of a weekly digest; 0 is Monday"
    )
    digest.add_argument("--zone", help="time zone: Europe/Rome")
    digest.add_argument("--calm", action=argparse.BooleanOptionalAction, help="also send it without problems")
    digest.add_argument("--reason", default="", help=REASON_HELP)
    digest.add_argument("--dry-run", action="store_true", help="check; change nothing")
    snooze = words.add_parser("snooze", help="mute notifications about a provider")
    snooze.add_argument("provider")
    snooze.add_argument("--for", dest="expires_in_s", type=seconds, metavar="TIME", help="duration: 30m, 2h … (1h)")
    _add_why(snooze)
    _acting(words.add_parser("lift", help="end a mute"))
    for word, brief in (("on", "switch a channel or rule on"), ("off", "switch a channel or rule off")):
        one = words.add_parser(word, help=brief)
        one.add_argument("noun", choices=_NOUNS)
        _acting(one)


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        return _list(console, options, say)
    if options.word == "log":
        return _log(console, options, say)
    body: dict[str, Any] = {"reason": options.reason, "dry_run": options.dry_run}
    if options.word == "digest":
        return _digest(console, options, body, say)
    if options.word == "test":
        found = console.ask("POST", f"{_PATH}/channels/{options.number}/test", body)
        say(
            f"A test {'would go' if found['dry_run'] else 'is on its way'}; `notifications log` says what became of it."
        )
        return DONE
    if options.word in ("snooze", "lift"):
        return _snoozed(console, options, body, say)
    body["is_on"] = options.word == "on"
    found = console.ask("PATCH", f"{_PATH}/{options.noun}s/{options.number}", body)
    tried = " (nothing was changed)" if found["dry_run"] else ""
    say(f"{_line(options.noun, found[options.noun])}{tried}")
    return DONE


def _acting(one: argparse.ArgumentParser) -> None:
    one.add_argument("number", type=int)
    _add_why(one)


def _add_why(one: argparse.ArgumentParser) -> None:
    one.add_argument("--reason", default="", help=REASON_HELP)
    one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def _digest(console: Asking, options: argparse.Namespace, body: dict[str, Any], say: Say) -> int:
    path = f"{_PATH}/channels/{options.number}/digest"
    words = {"at": options.at, "weekday": options.weekday, "zone": options.zone, "tells_calm": options.calm}
    words = {name: value for name, value in words.items() if value is not None}
    if options.every is not None:
        words["is_on"] = options.every != "never"
        words |= {} if options.every == "never" else {"every": options.every}
    if words:
        console.ask("PUT", path, body | words)
    found = console.ask("GET", path)
    told = found["digest"]
    is_on = told is not None and told["is_on"]
    say(f"{told['every']} at {told['at']} {told['zone']}, next {told['next_at'][:16]} UTC" if is_on else "not told")
    for line in (f"now: {found['now']['title']}", *(f"  {line}" for line in found["now"]["lines"])):
        say(line)
    return DONE


def _snoozed(console: Asking, options: argparse.Namespace, body: dict[str, Any], say: Say) -> int:
    if options.word == "lift":
        found = console.ask("POST", f"{_PATH}/snoozes/{options.number}/lift", body)
        told = found["snooze"]
        said = f"notices of {told['provider']} are told again, and of what was held back: {told['held']}"
    else:
        body["provider"] = options.provider
        if options.expires_in_s is not None:
            body["expires_in_s"] = options.expires_in_s
        found = console.ask("POST", f"{_PATH}/snoozes", body)
        said = f"notices of {options.provider} are snoozed until {found['snooze']['expires_at'][:19]} UTC"
    say(f"{said}{' (nothing was changed)' if found['dry_run'] else ''}")
    return DONE


def _list(console: Asking, options: argparse.Namespace, say: Say) -> int:
    for noun in _NOUNS:
        say_rows(console, f"{_PATH}/{noun}s", f"{noun}s", options, partial(_lines, noun), say)
    for one in console.ask("GET", f"{_PATH}/snoozes")["snoozes"]:
        until, why = one["expires_at"][:19], f"{one['by']}: {one['reason']}"
        say(f"snooze {one['number']} of {one['provider']} until {until} UTC, {one['held']} held back, {why}")
    return DONE


def _lines(noun: str, one: Mapping[str, Any]) -> list[str]:
    return [_line(noun, one), *(f"  after {step['after_s']:g} s {step['who']}" for step in one.get("steps", ()))]


def _log(console: Asking, options: argparse.Namespace, say: Say) -> int:
    say_rows(console, f"{_PATH}/deliveries", "deliveries", options, _delivery, say)
    return DONE


def _delivery(one: Mapping[str, Any]) -> list[str]:
    why = f": {one['problem']}" if one["problem"] else ""
    told = f"{one['made_at']} {one['number']} {one['state']} channel {one['channel']} “{one['title']}”"
    return [f"{told}{why}"]


def _line(noun: str, one: Mapping[str, Any]) -> str:
    off = "" if one["is_on"] else ", off"
    if noun == "channel":
        return f"channel {one['number']} {one['name']} ({one['kind']}, {one['leads_to']}){off}"
    if noun == "rule":
        about = [f"cause {cause}" for cause in one["causes"]] + [f"provider {name}" for name in one["providers"]]
        only = f", only {', '.join(about)}" if about else ""
        tells = f"tells channel {one['channel']} {', '.join(one['triggers'])}"
        return f"rule {one['number']} {one['name']} {tells}{only}{off}"
    return f"chain {one['number']} of queue {one['name']}{off}"
