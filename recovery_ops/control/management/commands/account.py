"""Makes and mends people's accounts: a password is asked for at a terminal, made up elsewhere, and shown once."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from recovery_ops.control.access.account_names import find_account
from recovery_ops.control.access.account_services import (
    AccountInvalid,
    create_account,
    grant_role,
    on_the_command_line,
    reset_account,
)
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.access.services import sign_ins
from recovery_ops.control.core.commands import CommandContext
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.rules.policy.scope import ANY
from recovery_ops.rules.roles import ROLES


class Command(BaseCommand):
    help = "Create accounts, reset passwords, grant roles, and list accounts."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(
            dest="verb", required=True, metavar="create|reset|grant|sign-out|break-glass|list"
        )
        create = verbs.add_parser("create", help="create an account")
        reset = verbs.add_parser("reset", help="create a new password; sessions end")
        grant = verbs.add_parser("grant", help="grant a role")
        sign_out = verbs.add_parser("sign-out", help="end all sessions of an account")
        sign_out.add_argument("name", metavar="NAME")
        glass = verbs.add_parser(
            "break-glass", help="create a temporary admin of all environments, when no user can sign in"
        )
        glass.add_argument("--reason", required=True, help="reason, recorded in the audit log")
        glass.add_argument("--hours", type=int, default=4, help="hours (4); at most 24")
        verbs.add_parser("list", help="list accounts and roles")
        for one in (create, reset, grant):
            one.add_argument("name", metavar="NAME")
        for one in (create, grant):
            one.add_argument("--role", required=True, choices=[str(role) for role in ROLES])
            # `manage.py` has an --environment of its own for what a server plays; here nothing said means everywhere.
            one.add_argument("--environment", default=EVERYWHERE, help="only this environment (all)")
        grant.add_argument("--group", default=ANY, help="only this group of agents (all)")
        for one in (create, reset):
            one.add_argument("--generate", action="store_true", help="generate the password, also at a terminal")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb'].replace('-', '_')}")(options)
        except (AccountInvalid, CommandRejected) as error:
            raise CommandError(str(error)) from None

    def _create(self, options: dict[str, Any]) -> None:
        typed = self._typed(options)
        user, password = create_account(
            options["name"], options["role"], environment=options["environment"], password=typed
        )
        self.stdout.write(f"{user.get_username()} is {options['role']} {_where(options['environment'])}.")
        self._tell(password, typed)

    def _reset(self, options: dict[str, Any]) -> None:
        typed = self._typed(options)
        user, password = reset_account(options["name"], password=typed)
        self.stdout.write(f"{user.get_username()} has a new password; sessions that were open have ended.")
        self._tell(password, typed)

    def _grant(self, options: dict[str, Any]) -> None:
        group = options["group"]
        user = grant_role(options["name"], options["role"], environment=options["environment"], group=group)
        part = "" if group == ANY else f" for {group}"
        self.stdout.write(f"{user.get_username()} is {options['role']} {_where(options['environment'])}{part}.")

    def _sign_out(self, options: dict[str, Any]) -> None:
        user = find_account(options["name"])
        if user is None:
            raise CommandError(f"There is no account called {options['name']}.")
        reason = "asked for on the server's command line"
        asked = CommandContext(by=on_the_command_line(), environment=EVERYWHERE, reason=reason)
        ended = sign_ins.end_sessions(user, **asked).object
        self.stdout.write(f"{user.get_username()}: {ended} sessions ended.")

    def _break_glass(self, options: dict[str, Any]) -> None:
        done = sign_ins.break_glass(by=on_the_command_line(), reason=options["reason"], hours=options["hours"])
        name = done.object.user.get_username()
        self.stdout.write(f"{name} is admin everywhere for {options['hours']} h; the audit log says so.")
        self._tell(done.object.password or "", None)

    def _list(self, options: dict[str, Any]) -> None:
        for user in get_user_model().objects.order_by("username"):
            held = sorted(grants_of(user).by_environment.items())
            told = [f"{role} {_where(environment)}" for environment, role in held]
            of_groups = sorted(grants_of(user).by_group.items())
            told += [f"{role} {_where(environment)} for {group}" for (environment, group), role in of_groups]
            roles = ", ".join(told) or "no role"
            self.stdout.write(f"{user.get_username()}\t{'may not sign in' if not user.is_active else roles}")

    def _typed(self, options: dict[str, Any]) -> str | None:
        """A password typed twice, or None to have one made up: where nobody types, or nobody wants to."""
        if options["generate"] or not sys.stdin.isatty():
            return None
        password = getpass.getpass("Password (empty: one is made up): ")
        if password and password != getpass.getpass("Once more: "):
            raise CommandError("The two are not the same; nothing was changed.")
        return password or None

    def _tell(self, password: str, typed: str | None) -> None:
        if typed is None:
            self.stdout.write("The password, shown this once:")
            self.stdout.write(password)


def _where(environment: str) -> str:
    return "everywhere" if environment == EVERYWHERE else f"in {environment}"
