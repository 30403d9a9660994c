"""The command line about keys that let programs in, and about records that could not be taken in; over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows

_KEYS = "/api/v1/keys"
_QUARANTINE = "/api/v1/quarantine"


def add_words(verbs: Any, seconds: Any) -> None:
    """The verbs `keys` and `quarantine`; `seconds` reads a length of time."""
    keys = verbs.add_parser("keys", help="keys: list, create, rotate, revoke (needs a key with `admin`)")
    words = keys.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="keys of the environment, without secrets"))
    create = words.add_parser("create", help="create a key; it is on the last line, once")
    create.add_argument("name", help="name of the key")
    create.add_argument("--scope", required=True, help="ingest,desired,read,act,settings,admin; or wall, alone")
    create.add_argument("--days", type=int, help="days until it expires (never)")
    rotate = words.add_parser("rotate", help="rotate a key; the old one expires after an overlap")
    rotate.add_argument("prefix", help="beginning of the key")
    rotate.add_argument("--overlap", dest="overlap_s", type=seconds, metavar="TIME", help="overlap: 30m, 2h … (1d)")
    revoke = words.add_parser("revoke", help="revoke a key")
    revoke.add_argument("prefix", help="beginning of the key")
    quarantine = verbs.add_parser("quarantine", help="quarantined records: list, replay, drop")
    lines = quarantine.add_subparsers(dest="word", required=True)
    add_paging(lines.add_parser("list", help="quarantined records with reasons, newest first"))
    replay = lines.add_parser("replay", help="replay records after a fix")
    drop = lines.add_parser("drop", help="drop records")
    for one in (replay, drop):
        one.add_argument("lines", type=int, nargs="*", metavar="number", help="numbers of records; none: all")
    for one in (create, rotate, revoke, replay, drop):
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.verb == "quarantine":
        return _quarantine(console, options, say)
    if options.word == "list":
        say_rows(console, _KEYS, "keys", options, lambda one: [_key(one)], say)
        return DONE
    body: dict[str, object] = {"reason": options.reason, "dry_run": options.dry_run}
    if options.word == "create":
        more = {} if options.days is None else {"days": options.days}
        said = {"name": options.name, "scopes": options.scope.split(",")}
        done = console.ask("POST", _KEYS, body | said | more)
    else:
        overlap_s = getattr(options, "overlap_s", None)
        more = {} if overlap_s is None else {"overlap_s": overlap_s}
        done = console.ask("POST", f"{_KEYS}/{options.prefix}/{options.word}", body | more)
    say(("Nothing was changed. " if done["dry_run"] else "") + _key(done["key"]))
    if done["token"] is not None:
        say(done["token"])
    return DONE


def _quarantine(console: Asking, options: argparse.Namespace, say: Say) -> int:
    if options.word == "list":
        say_rows(console, _QUARANTINE, "lines", options, lambda one: [_set_aside(one)], say)
        return DONE
    body: dict[str, object] = {"reason": options.reason, "dry_run": options.dry_run}
    done = console.ask(
        "POST", f"{_QUARANTINE}/{options.word}", body | ({"lines": options.lines} if options.lines else {})
    )
    tried = " (nothing was changed)" if done["dry_run"] else ""
    if options.word == "drop":
        say(f"{done['settled']} dropped{tried}")
    else:
        say(f"{done['settled']} taken in, {done['stored']} new facts, {done['left']} still cannot be{tried}")
    return DONE


def _set_aside(one: Mapping[str, Any]) -> str:
    return f"{one['number']} {one['received_at'][:19]} {one['signal']}, {one['size_bytes']} bytes: {one['reason']}"


def _key(one: Mapping[str, Any]) -> str:
    ends = "never ends" if one["expires_at"] is None else f"ends {one['expires_at'][:19]}"
    made = f", made by {one['made_by']}" if one["made_by"] else ""
    place = f" from {one['last_used_from']}" if one["last_used_from"] else ""
    used = f", last used {one['last_used_at'][:19]}{place}" if one["last_used_at"] else ""
    words = f"{one['standing']}, {ends}{made}{used}"
    return f"{one['prefix'] or '(none yet)'} {one['name']} ({', '.join(one['scopes'])}): {words}"
