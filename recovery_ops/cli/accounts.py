"""The command line about people's accounts: list, show, create, give and take roles, reset, lock out, let in again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows
from recovery_ops.rules.roles import ROLES

_PATH = "/api/v1/accounts"
_WHOLE = {
    "reset": "create a new password; it is on the last line, once",
    "disable": "disable an account and end its sessions",
    "enable": "enable an account",
}


def add_words(verbs: Any) -> None:
    """The verb `accounts` and what can be done with one."""
    accounts = verbs.add_parser("accounts", help="users: list, create, role … (needs a key with `admin`)")
    words = accounts.add_subparsers(dest="word", required=True)
    add_paging(words.add_parser("list", help="accounts and roles"))
    words.add_parser("show", help="one account").add_argument("number", type=int, help="number in `list`")
    create = words.add_parser("create", help="create an account; its password is on the last line, once")
    create.add_argument("name")
    give = words.add_parser("role", help="grant a role; it replaces the one there")
    take = words.add_parser("take-role", help="remove a role")
    whole = [words.add_parser(word, help=brief) for word, brief in _WHOLE.items()]
    for one in (give, take, *whole):
        one.add_argument("number", type=int, help="number in `list`")
    for one in (create, give):
        one.add_argument("--role", required=True, help=", ".join(ROLES))
    for one in (give, take):
        one.add_argument("--group", help="only for this group of agents")
    for one in (create, give, take):
        one.add_argument("--everywhere", action="store_true", help="in all environments")
    for one in (create, give, take, *whole):
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        say_rows(console, _PATH, "accounts", options, lambda one: [_line(one)], say)
        return DONE
    if options.word == "show":
        say(_line(console.ask("GET", f"{_PATH}/{options.number}")["account"]))
        return DONE
    names = ("reason", "dry_run", "name", "role", "group", "everywhere")
    body = {name: value for name in names if (value := getattr(options, name, None)) not in (None, False)}
    method, path = {
        "create": ("POST", _PATH),
        "role": ("PUT", f"{_PATH}/{getattr(options, 'number', 0)}/role"),
        "take-role": ("DELETE", f"{_PATH}/{getattr(options, 'number', 0)}/role"),
    }.get(options.word, ("POST", f"{_PATH}/{getattr(options, 'number', 0)}/{options.word}"))
    done = console.ask(method, path, body)
    noted = "Nothing was changed. It would be: " if done["dry_run"] else ""
    noted = noted or ("It was so already: " if done["was_already"] else "")
    # What is only tried is told as it stands; the role is what was asked for.
    tried = {"role": options.role} if done["dry_run"] and "role" in body and "group" not in body else {}
    say(noted + _line(done["account"] | tried))
    if done["password"] is not None:
        say(done["password"])
    return DONE


def _line(one: Mapping[str, Any]) -> str:
    """One account: `account 3 ana: operator, last signed in …`."""
    number = "(none yet)" if one["number"] is None else one["number"]
    role = f"{one['role'] or 'no role'}{' everywhere' if one['is_everywhere'] else ''}"
    groups = "".join(f", {told}" for told in one["groups"])
    out = "" if one["may_sign_in"] else ", locked out"
    last = "never signed in" if one["last_signed_in"] is None else f"last signed in {one['last_signed_in'][:19]}"
    return f"account {number} {one['name']}: {role}{groups}{out}; {last}"
