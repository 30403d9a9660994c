"""The command line about policies: show, check, diff, push, release, roll back, replay; over HTTP like the rest."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recovery_ops.cli.words import DONE, PAGE, REFUSED, Asking, Say, add_paging, say_rows

_PATH = "/api/v1/policies"
_POLL_S = 0.5
_DOUBTS = {
    "not_made": "attempts that nobody made",
    "not_asked": "answers of a fallback that was not asked",
    "not_admitted": "calls that were refused and would be made",
    "other_model": "attempts that would ask another model",
    "no_cost": "attempts at models whose cost nobody told",
}


def add_words(verbs: Any, seconds: Callable[[str], float]) -> None:
    """The verb `policy` and what can be done with one; `seconds` reads a length of time."""
    policy = verbs.add_parser("policy", help="show, check, compare, propose, release and roll back policies")
    words = policy.add_subparsers(dest="word", required=True)
    show = words.add_parser("show", help="the live policy as JSON, or a release of it")
    show.add_argument("version", nargs="?", type=int)
    for word, brief in (
        ("check", "what is wrong with a document, and what to ask about it"),
        ("diff", "how a document differs from the live policy"),
    ):
        words.add_parser(word, help=brief).add_argument("file", help="a JSON file, or - for standard input")
    for word, brief in (
        ("proposals", "the open proposals, the newest first"),
        ("releases", "the versions of the policy, the newest first"),
        ("rollouts", "proposals that went to some first, the newest first"),
        ("replays", "what was decided again, the newest first"),
    ):
        listed = words.add_parser(word, help=brief)
        add_paging(listed)
        if word == "proposals":
            listed.add_argument("--ended", action="store_true", help="also those that are live, rejected …")
    words.add_parser("proposal", help="one, with what it changes and what was said").add_argument("number", type=int)
    moves = [
        words.add_parser(word, help=brief)
        for word, brief in (
            ("submit", "send a draft to review"),
            ("comment", "say something about a proposal, as its reason"),
            ("return", "send a proposal back to its author"),
            ("reject", "end a proposal"),
        )
    ]
    for one in moves:
        one.add_argument("number", type=int)
    push = words.add_parser("push", help="propose a document")
    push.add_argument("file", help="a JSON file, or - for standard input")
    push.add_argument("--title", required=True, help="what changes, in a few words")
    push.add_argument("--review", action="store_true", help="and send it to review")
    release = _add_release(words, seconds)
    _add_rollout(words, seconds)
    back = words.add_parser("rollback", help="release what an earlier version said; 0 is the built-in policy")
    back.add_argument("version", type=int)
    replay = words.add_parser("replay", help="decide what was recorded again, under a proposal or a file")
    replay.add_argument("what", help="a proposal's number, or a JSON file")
    replay.add_argument("--back", type=seconds, default=86_400.0, metavar="TIME", help="how far to look back (24h)")
    for one in (push, release, back, *moves):
        one.add_argument("--reason", required=True, help="at least 10 characters, kept in the audit log")
        one.add_argument("--dry-run", action="store_true", help="check everything, write nothing")


def _add_release(words: Any, seconds: Callable[[str], float]) -> argparse.ArgumentParser:
    release: argparse.ArgumentParser = words.add_parser("release", help="make a proposal live")
    release.add_argument("number", type=int)
    release.add_argument("--at", type=_moment, metavar="TIME", help="then, by itself: 2027-01-15T08:00Z")
    release.add_argument("--canary", type=_share, metavar="SHARE", help="to a share of the instances first: 10%%")
    release.add_argument("--for", dest="for_s", type=seconds, metavar="TIME", help="how long they try it: 15m")
    release.add_argument("--service", help="only instances of this service try it")
    release.add_argument("--group", help="only instances of this group try it")
    release.add_argument("--least-calls", type=int, help="calls on each side before the health gate concludes anything")
    release.add_argument("--accept-golden", action="store_true", help="that golden runs change is meant")
    return release


def _add_rollout(words: Any, seconds: Callable[[str], float]) -> None:
    rollout = words.add_parser("rollout", help="how a rollout fares; promote it, prolong it or take it back")
    rollout.add_argument("number", type=int, nargs="?", help="empty: the newest")
    rollout.add_argument("--promote", action="store_true", help="make it the live policy of all now")
    rollout.add_argument("--take-back", action="store_true", help="give its cohort the live policy back now")
    rollout.add_argument("--extend", type=seconds, metavar="TIME", help="let it go on for so much longer")
    rollout.add_argument("--reason", help="at least 10 characters, kept in the audit log")
    rollout.add_argument("--dry-run", action="store_true", help="check everything, write nothing")


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
    path, nothing = f"{_PATH}/{options.word}{every_state}", f"There are no {options.word} yet."
    if options.word == "proposals" and not every_state:
        nothing = "No proposal is open: --ended has the others."
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
        does = {True: "stays as it is", False: case["difference"]}.get(case["is_same"], "is not known yet")
        say(f"  golden run {case['number']} “{case['name']}”: {does}")
    for note in found["notes"]:
        say(f"  {note['at'][:19]} {note['by']} ({note['verb']}): {note['text']}")
    return DONE


def _move(console: Asking, options: argparse.Namespace, say: Say) -> int:
    done = console.ask("POST", f"{_PATH}/proposals/{options.number}/{options.word}", _why(options))
    say(("Nothing was changed. It would be: " if done["dry_run"] else "") + _proposed(done["proposal"]))
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
        say(f"fault: {problem['path']} {problem['message']}")
    for finding in found["findings"]:
        say(f"{finding['level']}: {finding['path']} {finding['message']}")
    if found["is_valid"]:
        say(f"Agents would take it; it changes {len(found['changes'])} values of policy {found['base_version']}.")
    return DONE if found["is_valid"] else REFUSED


def _diff(console: Asking, options: argparse.Namespace, say: Say) -> int:
    found = _checked(console, options.file)
    if not found["is_valid"]:
        return _check(console, options, say)
    for change in found["changes"]:
        say(change["words"])
    if not found["changes"]:
        say(f"It says what policy {found['base_version']} says.")
    return DONE


def _push(console: Asking, options: argparse.Namespace, say: Say) -> int:
    body = _why(options) | {"title": options.title, "document": read_document(options.file)}
    done = console.ask("POST", f"{_PATH}/proposals", body)
    number = done["proposal"]["number"]
    if done["dry_run"]:
        say(f"Nothing was changed. It would be proposal {number}, made from policy {done['proposal']['base_version']}.")
        return DONE
    say(f"proposal {number}: {done['proposal']['state']}, made from policy {done['proposal']['base_version']}")
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
        first = ", to some first" if done["proposal"]["cohort"] else ""
        tried = "Nothing was changed. It would be: " if done["dry_run"] else ""
        say(f"{tried}proposal {options.number}: scheduled for {done['proposal']['go_live_at'][:19]}{first}")
        return DONE
    if cohort:
        done = console.ask("POST", f"{_PATH}/proposals/{options.number}/roll-out", _meant(options) | cohort)
        if done["dry_run"]:
            say(f"Nothing was changed. It would be rollout {done['rollout']['number']}, revision {done['revision']}.")
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
            say("Nothing was rolled out yet.")
            return DONE
        number = newest[0]["number"]
    path = f"{_PATH}/rollouts/{number}"
    why = _why(options) if options.reason else {"reason": ""}
    if options.promote:
        return _told(console.ask("POST", f"{path}/promote", why), say)
    if options.take_back or options.extend is not None:
        verb, more = ("take-back", {}) if options.take_back else ("extend", {"for_s": options.extend})
        done = console.ask("POST", f"{path}/{verb}", why | more)
        say(("Nothing was changed. " if done["dry_run"] else "") + _about(done["rollout"]))
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
        raise argparse.ArgumentTypeError(f"{text!r} is no share: say 10% or 0.1")
    return share


def _moment(text: str) -> str:
    """A moment with its zone, as ISO 8601."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no moment with a zone: say 2027-01-15T08:00Z")
    return at.isoformat()


def _roll_back(console: Asking, options: argparse.Namespace, say: Say) -> int:
    return _told(console.ask("POST", f"{_PATH}/releases/{options.version}/roll-back", _why(options)), say)


def _told(done: Mapping[str, Any], say: Say) -> int:
    version, revision = done["policy"]["version"], done["revision"]
    if done["dry_run"]:
        say(f"Nothing was changed. It would be policy {version}, revision {revision}.")
    elif done["was_already"]:
        say(f"policy {version} says so already")
    else:
        say(f"policy {version} is live: revision {revision}")
    return DONE


def _replay(console: Asking, options: argparse.Namespace, say: Say, sleep: Callable[[float], None]) -> int:
    end = datetime.now(UTC)
    body: dict[str, object] = {
        "reason": "asked for on the command line",
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
    say(f"replay {number}: {result['affected_calls']} of {result['calls']} calls that failed end or go otherwise")
    for name, old in result["measures"]["old"].items():
        new = result["measures"]["new"][name]
        if old != new:
            say(f"  {name}: {old or 0:g} → {new or 0:g}")
    for name, count in result["unknown"]["new"].items():
        say(f"  not known: {count} {_DOUBTS.get(name, name)}")
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
