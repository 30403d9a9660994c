"""The command line about policies: show, check, diff, push, release, roll back, replay; over HTTP like the rest."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recovery_ops.cli.words import DONE, PAGE, REASON_HELP, REFUSED, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/policies"
_POLL_S = 0.5
_DOUBTS = {
    "not_made": "additional attempts without a recorded result",
    "not_asked": "fallback calls without a recorded answer",
    "not_admitted": "rejected calls that would be made",
    "other_model": "attempts at another model",
    "no_cost": "attempts at models with unknown cost",
}


def add_words(verbs: Any, seconds: Callable[[str], float]) -> None:
    """The verb `policy` and what can be done with one; `seconds` reads a length of time."""
    policy = verbs.add_parser("policy", help="show, check, compare, propose, release and roll back policies")
    words = policy.add_subparsers(dest="word", required=True)
    show = words.add_parser("show", help="the live policy as JSON, or a release of it")
    show.add_argument("version", nargs="?", type=int)
    for word, brief in (
        ("check", "errors and warnings of a document"),
        ("diff", "differences between a document and the live policy"),
    ):
        words.add_parser(word, help=brief).add_argument("file", help="a JSON file, or - for standard input")
    for word, brief in (
        ("proposals", "open proposals, newest first"),
        ("releases", "releases of the policy, newest first"),
        ("rollouts", "canary rollouts, newest first"),
        ("replays", "replays, newest first"),
    ):
        listed = words.add_parser(word, help=brief)
        add_paging(listed)
        if word == "proposals":
            listed.add_argument("--ended", action="store_true", help="include live and rejected proposals")
    words.add_parser("proposal", help="one proposal with its changes and notes").add_argument("number", type=int)
    moves = [
        words.add_parser(word, help=brief)
        for word, brief in (
            ("submit", "submit a draft for review"),
            ("comment", "comment on a proposal; the reason is the comment"),
            ("return", "return a proposal to its author"),
            ("reject", "reject a proposal"),
        )
    ]
    for one in moves:
        one.add_argument("number", type=int)
    push = words.add_parser("push", help="propose a document")
    push.add_argument("file", help="a JSON file, or - for standard input")
    push.add_argument("--title", required=True, help="short description of the change")
    push.add_argument("--review", action="store_true", help="also submit it for review")
    release = _add_release(words, seconds)
    _add_rollout(words, seconds)
    back = words.add_parser("rollback", help="release an earlier version again; 0 is the default policy")
    back.add_argument("version", type=int)
    replay = words.add_parser("replay", help="replay recorded events under a proposal or a file")
    replay.add_argument("what", help="a proposal's number, or a JSON file")
    replay.add_argument("--back", type=seconds, default=86_400.0, metavar="TIME", help="time range before now (24h)")
    for one in (push, release, back, *moves):
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def _add_release(words: Any, seconds: Callable[[str], float]) -> argparse.ArgumentParser:
    release: argparse.ArgumentParser = words.add_parser("release", help="release a proposal")
    release.add_argument("number", type=int)
    release.add_argument("--at", type=_moment, metavar="TIME", help="scheduled time: 2027-01-15T08:00Z")
    release.add_argument("--canary", type=_share, metavar="SHARE", help="canary share of the instances: 10%%")
    release.add_argument("--for", dest="for_s", type=seconds, metavar="TIME", help="duration of the canary: 15m")
    release.add_argument("--service", help="canary of this service only")
    release.add_argument("--group", help="canary of this group only")
    release.add_argument("--least-calls", type=int, help="calls on each side that the health gate needs")
    release.add_argument("--accept-golden", action="store_true", help="accept changed golden runs")
    return release


def _add_rollout(words: Any, seconds: Callable[[str], float]) -> None:
    rollout = words.add_parser("rollout", help="show a rollout; promote, extend or roll it back")
    rollout.add_argument("number", type=int, nargs="?", help="default: the newest")
    rollout.add_argument("--promote", action="store_true", help="promote it to all instances now")
    rollout.add_argument("--take-back", action="store_true", help="roll it back now")
    rollout.add_argument("--extend", type=seconds, metavar="TIME", help="extend it by this duration")
    rollout.add_argument("--reason", help="at least 10 characters, recorded in the audit log")
    rollout.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say, sleep: Callable[[float], None]) -> int:
    """Carry out one of the words."""
    if options.word == "replay":
        return _replay(console, options, say, sleep)
    return {
        "show": _show,
        "check": _check,
        "diff": _diff,
        "push": _push,
        "release": _release,
        "rollback": _roll_back,
        "rollout": _rollout,
        "proposal": _proposal,
        **dict.fromkeys(_LISTS, _list),
        **dict.fromkeys(_MOVES, _move),
    }[options.word](console, options, say)


def _list(console: Asking, options: argparse.Namespace, say: Say) -> int:
    every_state = "?state=all" if getattr(options, "ended", False) else ""
    path, nothing = f"{_PATH}/{options.word}{every_state}", f"No {options.word} yet."
    if options.word == "proposals" and not every_state:
        nothing = "No open proposals; --ended lists the closed ones."
    say_rows(console, path, options.word, options, lambda one: [_LISTS[options.word](one)], say, nothing=nothing)
    return DONE


def _proposed(one: Mapping[str, Any]) -> str:
    state = one["state"].replace("_", " ")
    return f"proposal {one['number']}: {state}, {one['title']} (by {one['by']}, from policy {one['base_version']})"


def _proposal(console: Asking, options: argparse.Namespace, say: Say) -> int:
    found = console.ask("GET", f"{_PATH}/proposals/{options.number}")
    say(_proposed(found["proposal"]))
    for change in found["changes"]:
        say(f"  {change['words']}")
    for finding in found["findings"]:
        say(f"  {finding['level']}: {finding['path']} {finding['message']}")
    for case in found["golden"]:
        does = {True: "is unchanged", False: case["difference"]}.get(case["is_same"], "is unknown so far")
        say(f"  golden run {case['number']} “{case['name']}”: {does}")
    for note in found["notes"]:
        say(f"  {note['at'][:19]} {note['by']} ({note['verb']}): {note['text']}")
    return DONE


def _move(console: Asking, options: argparse.Namespace, say: Say) -> int:
    done = console.ask("POST", f"{_PATH}/proposals/{options.number}/{options.word}", _why(options))
    say(("Dry run, nothing changed: " if done["dry_run"] else "") + _proposed(done["proposal"]))
    return DONE


def _released(one: Mapping[str, Any]) -> str:
    of = "" if one["proposal"] is None else f", proposal {one['proposal']}"
    glass = ", without approval" if one["is_break_glass"] else ""
    return (
        f"policy {one['version']}: {one['summary']}{of}{glass} ({one['by']}, {one['created_at'][:19]}: {one['reason']})"
    )


def _replayed(one: Mapping[str, Any]) -> str:
    of = "a document" if one["proposal"] is None else f"proposal {one['proposal']}"
    return f"replay {one['number']} of {of}: {one['state']}, {one['start'][:19]} to {one['end'][:19]} (by {one['by']})"


def _show(console: Asking, options: argparse.Namespace, say: Say) -> int:
    path = _PATH if options.version is None else f"{_PATH}/releases/{options.version}"
    say(json.dumps(console.ask("GET", path)["document"], indent=2, ensure_ascii=False))
    return DONE


def _check(console: Asking, options: argparse.Namespace, say: Say) -> int:
    found = _checked(console, options.file)
    for problem in found["problems"]:
        say(f"error: {problem['path']} {problem['message']}")
    for finding in found["findings"]:
        say(f"{finding['level']}: {finding['path']} {finding['message']}")
    if found["is_valid"]:
        say(f"Valid; changes {len(found['changes'])} values of policy {found['base_version']}.")
    return DONE if found["is_valid"] else REFUSED


def _diff(console: Asking, options: argparse.Namespace, say: Say) -> int:
    found = _checked(console, options.file)
    if not found["is_valid"]:
        return _check(console, options, say)
    for change in found["changes"]:
        say(change["words"])
    if not found["changes"]:
        say(f"No differences to policy {found['base_version']}.")
    return DONE


def _push(console: Asking, options: argparse.Namespace, say: Say) -> int:
    body = _why(options) | {"title": options.title, "document": read_document(options.file)}
    done = console.ask("POST", f"{_PATH}/proposals", body)
    number = done["proposal"]["number"]
    if done["dry_run"]:
        say(f"Dry run, nothing changed: proposal {number}, base policy {done['proposal']['base_version']}.")
        return DONE
    say(f"proposal {number}: {done['proposal']['state']}, base policy {done['proposal']['base_version']}")
    if options.review:
        state = console.ask("POST", f"{_PATH}/proposals/{number}/submit", _why(options))["proposal"]["state"]
        say(f"proposal {number}: {state.replace('_', ' ')}")
    return DONE


def _release(console: Asking, options: argparse.Namespace, say: Say) -> int:
    cohort = {
        name: value
        for name in ("for_s", "service", "group", "least_calls")
        if (value := getattr(options, name)) is not None
    }
    cohort |= {} if options.canary is None else {"share": options.canary}
    if options.at is not None:
        body = _meant(options) | cohort | {"go_live_at": options.at}
        done = console.ask("POST", f"{_PATH}/proposals/{options.number}/schedule", body)
        first = ", canary first" if done["proposal"]["cohort"] else ""
        tried = "Dry run, nothing changed: " if done["dry_run"] else ""
        say(f"{tried}proposal {options.number}: scheduled for {done['proposal']['go_live_at'][:19]}{first}")
        return DONE
    if cohort:
        done = console.ask("POST", f"{_PATH}/proposals/{options.number}/roll-out", _meant(options) | cohort)
        if done["dry_run"]:
            say(f"Dry run, nothing changed: rollout {done['rollout']['number']}, revision {done['revision']}.")
            return DONE
        say(_about(done["rollout"]))
        return DONE
    return _told(console.ask("POST", f"{_PATH}/proposals/{options.number}/release", _meant(options)), say)


def _meant(options: argparse.Namespace) -> dict[str, object]:
    return _why(options) | ({"accepts_golden": True} if options.accept_golden else {})


def _rollout(console: Asking, options: argparse.Namespace, say: Say) -> int:
    number = options.number
    if number is None:
        newest = console.ask("GET", f"{_PATH}/rollouts?limit=1")["rollouts"]
        if not newest:
            say("No rollouts yet.")
            return DONE
        number = newest[0]["number"]
    path = f"{_PATH}/rollouts/{number}"
    why = _why(options) if options.reason else {"reason": ""}
    if options.promote:
        return _told(console.ask("POST", f"{path}/promote", why), say)
    if options.take_back or options.extend is not None:
        verb, more = ("take-back", {}) if options.take_back else ("extend", {"for_s": options.extend})
        done = console.ask("POST", f"{path}/{verb}", why | more)
        say(("Dry run, nothing changed. " if done["dry_run"] else "") + _about(done["rollout"]))
        return DONE
    found = console.ask("GET", path)
    say(_about(found["rollout"]))
    for side in ("cohort", "others"):
        say(f"  {side}: {found[side]['counts']['applied']}/{found[side]['total']} applied")
    return DONE


def _about(rollout: Mapping[str, Any]) -> str:
    """`rollout 2 of proposal 7: running until …; the gate: …`."""
    until = f" until {rollout['ends_at'][:19]}" if rollout["state"] == "running" else f": {rollout['end_reason']}"
    said = f"; {rollout['health'].replace('_', ' ')}: {rollout['said']}" if rollout["said"] else ""
    state = rollout["state"].replace("_", " ")
    return f"rollout {rollout['number']} of proposal {rollout['proposal']} is {state}{until}{said}"


def _share(text: str) -> float:
    """`10%` or `0.1`."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; use 10% or 0.1")
    return share


def _moment(text: str) -> str:
    """A moment with its zone, as ISO 8601."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time with a zone; use 2027-01-15T08:00Z")
    return at.isoformat()


def _roll_back(console: Asking, options: argparse.Namespace, say: Say) -> int:
    return _told(console.ask("POST", f"{_PATH}/releases/{options.version}/roll-back", _why(options)), say)


def _told(done: Mapping[str, Any], say: Say) -> int:
    version, revision = done["policy"]["version"], done["revision"]
    if done["dry_run"]:
        say(f"Dry run, nothing changed: policy {version}, revision {revision}.")
    elif done["was_already"]:
        say(f"policy {version} already equals this release")
    else:
        say(f"policy {version} is live: revision {revision}")
    return DONE


def _replay(console: Asking, options: argparse.Namespace, say: Say, sleep: Callable[[float], None]) -> int:
    end = datetime.now(UTC)
    body: dict[str, object] = {
        "reason": "started on the command line",
        "start": (end - timedelta(seconds=options.back)).isoformat(),
        "end": end.isoformat(),
    }
    body |= {"proposal": int(options.what)} if options.what.isdigit() else {"document": read_document(options.what)}
    number = console.ask("POST", f"{_PATH}/replays", body)["replay"]["number"]
    while (found := console.ask("GET", f"{_PATH}/replays/{number}"))["replay"]["state"] in ("waiting", "running"):
        sleep(_POLL_S)
    replay, result = found["replay"], found["result"]
    if result is None:
        say(f"replay {number}: {replay['state']} {replay['problem']}".rstrip())
        return REFUSED
    say(f"replay {number}: {result['affected_calls']} of {result['calls']} failed calls with a different outcome")
    for name, old in result["measures"]["old"].items():
        new = result["measures"]["new"][name]
        if old != new:
            say(f"  {name}: {old or 0:g} → {new or 0:g}")
    for name, count in result["unknown"]["new"].items():
        say(f"  unknown: {count} {_DOUBTS.get(name, name)}")
    return DONE


_LISTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "proposals": _proposed,
    "releases": _released,
    "rollouts": _about,
    "replays": _replayed,
}
_MOVES = ("submit", "comment", "return", "reject")


def follow(
    console: Asking, *, is_following: bool, say: Say, sleep: Callable[[float], None], limit: int | None = 20
) -> int:
    """What people and the console did, oldest first: the last `limit`, or all; and, while followed, what they do."""
    seen = 0
    while True:
        for entry in _entries(console, seen=seen, most=None if seen else limit):
            result = "" if entry["result"] == "ok" else f" ({entry['result']}: {entry['code']})"
            revision = f", revision {entry['revision']}" if entry["revision"] is not None else ""
            what = f"{entry['actor']['name']} {entry['verb']} {entry['object']}{result}{revision}"
            say(f"{entry['at'][:19]} {what}: {entry['reason']}")
            seen = entry["number"]
        if not is_following:
            return DONE
        sleep(_POLL_S)


def _entries(console: Asking, *, seen: int, most: int | None) -> list[dict[str, Any]]:
    """The entries of the audit log behind the one that was seen, oldest first; of many the newest `most`."""
    found: list[dict[str, Any]] = []
    further: str | None = f"/api/v1/audit?limit={PAGE if most is None else min(most, PAGE)}"
    while further is not None and (most is None or len(found) < most):
        page = console.ask("GET", further)
        fresh = [one for one in page["entries"] if one["number"] > seen]
        found += fresh
        further = page["next"] if len(fresh) == len(page["entries"]) else None
    return found[:most][::-1]


def _checked(console: Asking, file: str) -> dict[str, Any]:
    return console.ask("POST", f"{_PATH}/check", {"document": read_document(file)})


def _why(options: argparse.Namespace) -> dict[str, object]:
    return {"reason": options.reason} | ({"dry_run": True} if options.dry_run else {})


class Unreadable(Exception):
    """A file that is not there, or not JSON."""


def read_document(file: str) -> object:
    """What a file of JSON holds; `-` is the standard input. Raises Unreadable."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{file}: {error}") from None
