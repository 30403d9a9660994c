"""`manage.py key`: makes, lists, replaces and revokes the keys that let programs in."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from events.keys import SCOPES
from events.models import AgentKey
from recovery_ops.control.access.account_services import on_the_command_line
from recovery_ops.control.access.services import keys
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.rejections import CommandRejected

_REASON = "asked for on the server's command line"


class Command(BaseCommand):
    help = "Create, list, rotate and revoke keys."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="Create a key; it is on the last line, once.")
        create.add_argument("--name", required=True, help="Name of the key.")
        create.add_argument(
            "--scope", type=_scopes, default=["ingest", "desired"], help=f"Comma-separated: {', '.join(SCOPES)}."
        )
        create.add_argument("--days", type=_days, help="Days until it expires (never).")
        create.add_argument(
            "--requests-per-s",
            type=int,
            help="Requests per second for each permission; 0: no limit (by the environment variables).",
        )
        create.add_argument("--environment", default=settings.ENVIRONMENT, help="Environment (%(default)s).")
        listing = actions.add_parser("list", help="List keys.")
        listing.add_argument("--environment", help="Only this environment.")
        rotate = actions.add_parser("rotate", help="Rotate a key; the old one expires after an overlap.")
        rotate.add_argument("prefix", help="Beginning of the old key.")
        rotate.add_argument("--overlap-hours", type=_hours, default=24, help="Hours in which both are valid (24).")
        revoke = actions.add_parser("revoke", help="Revoke a key; takes effect within 10 s.")
        revoke.add_argument("prefix", help="Beginning of the key.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "create":
            self._create(options)
        elif options["action"] == "list":
            self._list(options["environment"])
        elif options["action"] == "rotate":
            self._rotate(options)
        else:
            self._revoke(options["prefix"])

    def _create(self, options: dict[str, Any]) -> None:
        try:
            made = keys.make_key(
                by=on_the_command_line(),
                environment=options["environment"],
                reason=_REASON,
                name=options["name"],
                scopes=options["scope"],
                days=options["days"],
                requests_per_s=options["requests_per_s"],
            ).object
        except CommandRejected as rejection:
            told = [f"--{name.removesuffix('s')}: {fault}" for name, fault in rejection.fields.items()]
            raise CommandError("; ".join(told) or rejection.detail) from rejection
        self._tell(made)

    def _rotate(self, options: dict[str, Any]) -> None:
        key = _known(options["prefix"])
        try:
            made = keys.rotate_key(
                by=on_the_command_line(),
                environment=key.environment,
                reason=_REASON,
                prefix=key.prefix,
                overlap_s=options["overlap_hours"] * 3600.0,
            ).object
        except CommandRejected as rejection:
            raise CommandError(rejection.detail) from rejection
        self._tell(made)

    def _tell(self, made: keys.IssuedKey) -> None:
        key = made.key
        # On the other stream, so that `KEY=$(manage.py key create …)` holds the key and nothing else.
        self.stderr.write(f"{key.name}: may {key.scopes} in {key.environment}. This is the only time it is shown.")
        self.stdout.write(made.token or "")

    def _list(self, environment: str | None) -> None:
        found = AgentKey.objects.all()
        if environment is not None:
            found = found.filter(environment=environment)
        for key in found:
            self.stdout.write(
                f"{key.prefix}  {key.environment:<12} {key.scopes:<24} {_standing(key):<28} {_named(key)}".rstrip()
            )
        if not found:
            self.stderr.write("There is no key. `manage.py key create --name NAME` makes one.")

    def _revoke(self, prefix: str) -> None:
        key = _known(prefix)
        keys.revoke(by=on_the_command_line(), environment=key.environment, reason=_REASON, prefix=prefix)
        self.stdout.write(f"{key.name} ({key.prefix}) is revoked.")


def _known(prefix: str) -> AgentKey:
    key = AgentKey.objects.filter(prefix=prefix).first()
    if key is None:
        raise CommandError(f"No key begins with {prefix}. `manage.py key list` shows all.")
    return key


def _hours(given: str) -> int:
    hours = parse_number(given)
    if hours is None or hours > 720:
        raise ArgumentTypeError("a whole number of hours, up to 720")
    return hours


def _scopes(given: str) -> list[str]:
    found = [scope for scope in given.replace(",", " ").split() if scope]
    unknown = [scope for scope in found if scope not in SCOPES]
    if unknown or not found:
        raise ArgumentTypeError(f"choose from {', '.join(SCOPES)}")
    return found


def _days(given: str) -> int:
    days = parse_number(given)
    if days is None or not 1 <= days <= 36500:
        raise ArgumentTypeError("a whole number of days, from 1")
    return days


def _standing(key: AgentKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
    if key.expires_at is not None and key.expires_at <= datetime.now(UTC):
        return f"expired {key.expires_at:%Y-%m-%d %H:%M}"
    if key.last_used_at is not None:
        place = f" from {key.last_used_from}" if key.last_used_from else ""
        return f"last used {key.last_used_at:%Y-%m-%d %H:%M}{place}"
    return "never used"


def _named(key: AgentKey) -> str:
    return f"{key.name}, made by {key.made_by}" if key.made_by else key.name
