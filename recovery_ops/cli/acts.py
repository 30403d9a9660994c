"""The command line about breakers and shed load: one verb for one or several, what it touches, and who obeys."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from recovery_ops.cli import ramps
from recovery_ops.cli.words import (
    DONE,
    NOT_APPLIED,
    REASON_HELP,
    REFUSED,
    WAITS,
    Ask,
    Asking,
    Refusal,
    Say,
    Unconfirmed,
)
from recovery_ops.rules.url_names import part_of

POLL_S = 0.25
_EVERYBODY = "/api/v1/status"
"""Who obeys the newest revision, of all."""
_MOST_NAMED = 6
_VERBS = (
    ("trip", "force breakers open"),
    ("disable", "disable breakers: every call passes"),
    ("observe", "set breakers to metrics only: every call passes, rejections are only recorded"),
    ("extend", "extend an override"),
    ("release", "clear an override"),
    ("reset", "reset a breaker; on many instances in steps"),
    ("probe", "send one probe through an open breaker now"),
)
_OF_SHEDDING = ("confirm", "break_glass")
_IMPOSING = ("trip", "disable", "observe")
_PARTS = ("service", "instance", "group")
_SAID = ("reason", *_PARTS, "dry_run", "expires_in_s", "starts_in_s", "ahead", "confirm", "break_glass")


def add_words(verbs: Any, seconds: Callable[[str], float]) -> None:
    """The verbs for breakers, and `shed`; `seconds` reads a length of time."""
    for verb, brief in _VERBS:
        one = verbs.add_parser(verb, help=brief)
        one.add_argument("breaker", nargs="+", help="name of a breaker; several are allowed")
        _add_why(one)
        for part in _PARTS:
            one.add_argument(f"--{part}", help=f"only this {part}")
        one.add_argument(
            "--wait", type=seconds, default=0, metavar="TIME", help="longest wait until all agents have applied it: 30s"
        )
        if verb in (*_IMPOSING, "extend"):
            _add_glass(one)
            one.add_argument(
                "--for", dest="expires_in_s", type=seconds, metavar="TIME", help="duration: 30m, 2h … (1h)"
            )
        if verb in _IMPOSING:
            one.add_argument("--in", dest="starts_in_s", type=seconds, metavar="TIME", help="start later: 30m, 2h …")
            one.add_argument("--ahead", action="store_true", help="allow a breaker that no instance has reported yet")
            _add_confirm(one)
    shed = verbs.add_parser("shed", help="start, extend or stop load shedding")
    shed.add_argument("--least", default="critical", help="lowest priority that passes (critical)")
    shed.add_argument("--for", dest="expires_in_s", type=seconds, metavar="TIME", help="duration: 30m, 2h … (1h)")
    shed.add_argument("--in", dest="starts_in_s", type=seconds, metavar="TIME", help="start later: 30m, 2h …")
    shed.add_argument("--extend", action="store_true", help="new duration from now")
    shed.add_argument("--off", action="store_true", help="stop load shedding")
    _add_why(shed)
    _add_confirm(shed)
    _add_glass(shed)


def _add_why(one: argparse.ArgumentParser) -> None:
    one.add_argument("--reason", default="", help=REASON_HELP)
    one.add_argument("--dry-run", action="store_true", help="check and show the impact; change nothing")


def _add_glass(one: argparse.ArgumentParser) -> None:
    one.add_argument("--break-glass", action="store_true", help="apply without the second approver; reviewed later")


def _add_confirm(one: argparse.ArgumentParser) -> None:
    one.add_argument("--confirm", metavar="NAME", help="repeated name, where the reach is wide; for scripts")


def act(console: Asking, options: argparse.Namespace, say: Say, sleep: Callable[[float], None], ask: Ask | None) -> int:
    """Carry out one verb for one breaker, or for several."""
    body = _body(options)
    if options.verb == "extend" and "expires_in_s" not in body:
        body["expires_in_s"] = 3600.0
        say("It ends in 1 h: no --for was given.")
    if len(options.breaker) > 1:
        return _several(console, options, body, say, sleep, ask)
    [breaker] = options.breaker
    path = f"/api/v1/breakers/{quote(part_of(breaker), safe='')}"
    done = _confirmed(console, f"{path}/{options.verb}", body, say, ask)
    if "waits" in done:
        return _say_waiting(done, say)
    in_steps = f" It would go in steps: {ramps.line_of(done['ramp'])}." if "ramp" in done else ""
    if done["dry_run"]:
        say(f"Nothing was changed. {_touched(done['impact'])}.{in_steps} {done['impact']['consequence']}")
        _say_called_off(done, say)
        _say_answers(done["impact"], say)
        _say_needs(done, say)
        return DONE
    say(f"{options.verb} {breaker}: {_result(done)}; {_touched(done['impact'])}")
    _say_called_off(done, say)
    _say_assumed(done, say)
    if "ramp" in done:
        say(f"{ramps.line_of(done['ramp'])}; see `recovery-ops resets show {done['ramp']['number']}`")
    who = _EVERYBODY if "*" in breaker else f"{path}?revision={done['revision']}"
    return _waited(console, who, options.wait, say, sleep)


def shed(console: Asking, options: argparse.Namespace, say: Say, ask: Ask | None) -> int:
    """Shed load, let it go on, or let everything pass again."""
    body = _body(options)
    if options.off:
        ended = {name: body[name] for name in body if name not in _OF_SHEDDING}
        done = console.ask("POST", "/api/v1/shed/release", ended)
    elif options.extend:
        prolonged = {"expires_in_s": 3600.0} | {name: body[name] for name in body if name != "confirm"}
        done = console.ask("POST", "/api/v1/shed/extend", prolonged)
    else:
        done = _confirmed(console, "/api/v1/shed", body | {"least": options.least}, say, ask)
    if "waits" in done:
        return _say_waiting(done, say)
    held = done["shed"]
    until = (
        f"{'from ' + held['starts_at'][:19] + ' ' if options.starts_in_s else ''}until {held['expires_at'][:19]} UTC"
    )
    words = f"load is shed {until}"
    if held["ended_at"]:
        is_called_off = held["starts_at"] > held["ended_at"]
        words = f"none is shed from {held['starts_at'][:19]} UTC on" if is_called_off else "everything passes again"
    if done["dry_run"]:
        say(f"Nothing was changed. It would be: {words}, revision {done['revision']}. {_touched(done['impact'])}.")
        _say_needs(done, say)
        return DONE
    say(f"{words}: revision {done['revision']}{' (it was so already)' if done['was_already'] else ''}")
    _say_called_off(done, say)
    _say_assumed(done, say)
    return DONE


def _say_called_off(done: Mapping[str, Any], say: Say) -> None:
    for one in done.get("called_off", ()):
        span = f"{one['starts_at'][:19]} to {one['expires_at'][:19]} UTC"
        say(f"It calls off what was planned there: {one['id']}, {span}, {one['by']}: {one['reason']}")


def _result(done: Mapping[str, Any]) -> str:
    """What came of it, and of which override: `revision 7, forced_open from 2026-11-21T14:26:18 to … UTC`."""
    words = f"revision {done['revision']}"
    if done["was_already"]:
        words += " (it was so already)"
    held = done.get("override")
    if held is None:
        return words
    span = f"{held['mode']} from {held['starts_at'][:19]} to {held['expires_at'][:19]} UTC"
    return f"{words}, {'ended: ' if held['ended_at'] else ''}{span}"


def _several(
    console: Asking,
    options: argparse.Namespace,
    body: dict[str, object],
    say: Say,
    sleep: Callable[[float], None],
    ask: Ask | None,
) -> int:
    said = body | {"verb": options.verb, "names": options.breaker}
    found = _confirmed(console, "/api/v1/breakers", said, say, ask)
    tried = " (nothing was changed)" if body.get("dry_run") else ""
    for one in found["results"]:
        if "waits" in one:
            say(f"{one['name']}: {one['detail']}")
            continue
        if "problem" in one:
            say(f"{one['name']}: refused: {one['problem']['detail']}")
            continue
        say(f"{one['name']}: {_result(one['done'])}{tried}")
    waiting = found.get("waiting", 0)
    say(f"{len(found['results']) - found['refused'] - waiting} of {len(found['results'])}; {_touched(found['impact'])}")
    _say_answers(found["impact"], say)
    _say_assumed(found, say)
    is_done = len(found["results"]) > found["refused"] + waiting and not body.get("dry_run")
    waited = _waited(console, _EVERYBODY, options.wait, say, sleep) if is_done else DONE
    return REFUSED if found["refused"] else WAITS if waiting else waited


def _confirmed(console: Asking, path: str, body: dict[str, object], say: Say, ask: Ask | None) -> dict[str, Any]:
    """What the console answers; whoever sits at the terminal is asked for the name that it wants repeated."""
    try:
        return console.ask("POST", path, body)
    except Refusal as refusal:
        if set(refusal.fields) != {"confirm"} or "confirm" in body:
            raise
        if ask is None:
            raise Unconfirmed(f"{refusal} Give --confirm with that name.") from None
        tried = console.ask("POST", path, body | {"dry_run": True})
        if tried.get("impact"):
            say(f"{_touched(tried['impact'])}. {tried['impact']['consequence']}")
        return console.ask("POST", path, body | {"confirm": ask(f"confirm {refusal.fields['confirm']}\n> ")})


def _say_waiting(done: Mapping[str, Any], say: Say) -> int:
    say(done["detail"])
    say(f"see `recovery-ops requests show {done['request']['number']}`")
    return WAITS


def _say_needs(done: Mapping[str, Any], say: Say) -> None:
    if done.get("needs_second"):
        say("It would wait until a second person agrees.")


def _body(options: argparse.Namespace) -> dict[str, object]:
    return {name: value for name in _SAID if (value := getattr(options, name, None)) is not None and value is not False}


def _touched(impact: Mapping[str, Any]) -> str:
    """`3 instances have it, 4 are in scope, 2 runs in flight, 120 calls per minute`."""
    words = [f"{impact['instances']} instances have it", f"{impact['in_scope']} are in scope"]
    if impact["runs_in_flight"]:
        words.append(f"{impact['runs_in_flight']} runs in flight")
    if impact["calls_per_min"]:
        words.append(f"{impact['calls_per_min']:g} calls per minute")
    return ", ".join(words)


def _say_answers(impact: Mapping[str, Any], say: Say) -> None:
    for one in impact["operations"]:
        rate = "" if one["calls_per_min"] is None else f", {one['calls_per_min']:g} calls per minute"
        say(f"  {one['operation']}{rate}: {one['sentence']}")


def _say_assumed(done: Mapping[str, Any], say: Say) -> None:
    for name, value in done.get("assumed", {}).items():
        if name == "expires_in_s":
            say(f"It ends in {value / 3600:g} h: no --for was given.")


def _waited(console: Asking, path: str, wait_s: float, say: Say, sleep: Callable[[float], None]) -> int:
    """Say how far it has come, until every instance that can be reached obeys, or the time is over."""
    if not wait_s:
        return DONE
    polls_left = int(wait_s / POLL_S)
    while True:
        applying = console.ask("GET", path)["applying"]
        is_done = not any(applying["counts"][status] for status in ("pending", "failed", "drifted"))
        if is_done or not polls_left:
            say(applied(applying))
            return DONE if is_done else NOT_APPLIED
        polls_left -= 1
        sleep(POLL_S)


def applied(applying: Mapping[str, Any]) -> str:
    """`37/40 applied, 2 pending (research/r-4, research/r-9), 1 unreachable (…)`."""
    words = [f"{applying['counts']['applied']}/{applying['total']} applied"]
    for status in ("pending", "failed", "drifted", "unreachable"):
        names = applying[status]
        if names:
            more = "" if len(names) <= _MOST_NAMED else f" and {len(names) - _MOST_NAMED} more"
            words.append(f"{len(names)} {status} ({', '.join(names[:_MOST_NAMED])}{more})")
    return ", ".join(words)
