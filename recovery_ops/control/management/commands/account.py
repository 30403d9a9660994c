"""Makes and mends people's accounts: a password is asked for at a terminal, made up elsewhere, and shown once."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from recovery_ops.control.accounts import AccountInvalid, create_account, grant_role, reset_account
from recovery_ops.control.models import EVERYWHERE
from recovery_ops.control.roles import ROLES, grants_of


class Command(BaseCommand):
    help = "Make an account, mend a lost password, change a role, or list who may come in."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="create|reset|grant|list")
        create = verbs.add_parser("create", help="a new account")
        reset = verbs.add_parser("reset", help="a new password for an account; its sessions end")
        grant = verbs.add_parser("grant", help="another role for an account")
        verbs.add_parser("list", help="every account and its roles")
        for one in (create, reset, grant):
            one.add_argument("name", metavar="NAME")
        for one in (create, grant):
            one.add_argument("--role", required=True, choices=[str(role) for role in ROLES])
            # `manage.py` has an --environment of its own for what a server plays; here nothing said means everywhere.
            one.add_argument("--environment", default=EVERYWHERE, help="one environment; without it, every one")
        for one in (create, reset):
            one.add_argument("--generate", action="store_true", help="make the password up, also at a terminal")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except AccountInvalid as error:
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
        user = grant_role(options["name"], options["role"], environment=options["environment"])
        self.stdout.write(f"{user.get_username()} is {options['role']} {_where(options['environment'])}.")

    def _list(self, options: dict[str, Any]) -> None:
        for user in get_user_model().objects.order_by("username"):
            held = sorted(grants_of(user).by_environment.items())
            roles = ", ".join(f"{role} {_where(environment)}" for environment, role in held) or "no role"
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
