"""`manage.py key`: makes, lists and revokes the keys that let programs in."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from events.keys import SCOPES, KeyInvalid, create_key, revoke_key
from events.models import AgentKey


class Command(BaseCommand):
    help = "Make, list and revoke the keys of agents and other programs."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="Make a key and print it, once, alone on the last line.")
        create.add_argument("--name", required=True, help="What or whom it is for.")
        create.add_argument(
            "--scope", type=_scopes, default=["ingest", "desired"], help=f"Comma-separated: {', '.join(SCOPES)}."
        )
        create.add_argument("--days", type=_days, help="How long it is good for; for ever if not given.")
        create.add_argument("--environment", default=settings.ENVIRONMENT, help="Default: %(default)s.")
        listing = actions.add_parser("list", help="Show all keys.")
        listing.add_argument("--environment", help="Only those of this environment.")
        revoke = actions.add_parser("revoke", help="Revoke a key; obeyed everywhere within 10 s.")
        revoke.add_argument("prefix", help="The beginning of the key, as `list` shows it.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "create":
            self._create(options)
        elif options["action"] == "list":
            self._list(options["environment"])
        else:
            self._revoke(options["prefix"])

    def _create(self, options: dict[str, Any]) -> None:
        days = options["days"]
        expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
        try:
            key, token = create_key(options["name"], options["scope"], options["environment"], expires_at=expires_at)
        except KeyInvalid as error:
            raise CommandError(f"--{error.field.removesuffix('s')}: {error.reason}") from error
        # On the other stream, so that `KEY=$(manage.py key create …)` holds the key and nothing else.
        self.stderr.write(f"{key.name}: may {key.scopes} in {key.environment}. This is the only time it is shown.")
        self.stdout.write(token)

    def _list(self, environment: str | None) -> None:
        found = AgentKey.objects.all()
        if environment is not None:
            found = found.filter(environment=environment)
        for key in found:
            self.stdout.write(
                f"{key.prefix}  {key.environment:<12} {key.scopes:<24} {_standing(key):<28} {key.name}".rstrip()
            )
        if not found:
            self.stderr.write("There is no key. `manage.py key create --name NAME` makes one.")

    def _revoke(self, prefix: str) -> None:
        key = revoke_key(prefix)
        if key is None:
            raise CommandError(f"No key begins with {prefix}. `manage.py key list` shows all.")
        self.stdout.write(f"{key.name} ({key.prefix}) is revoked.")


def _scopes(given: str) -> list[str]:
    found = [scope for scope in given.replace(",", " ").split() if scope]
    unknown = [scope for scope in found if scope not in SCOPES]
    if unknown or not found:
        raise ArgumentTypeError(f"choose from {', '.join(SCOPES)}")
    return found


def _days(given: str) -> int:
    if not given.isdecimal() or not 1 <= int(given) <= 36500:
        raise ArgumentTypeError("a whole number of days, from 1")
    return int(given)


def _standing(key: AgentKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
    if key.expires_at is not None and key.expires_at <= datetime.now(UTC):
        return f"expired {key.expires_at:%Y-%m-%d %H:%M}"
    if key.last_used_at is not None:
        return f"last used {key.last_used_at:%Y-%m-%d %H:%M}"
    return "never used"
