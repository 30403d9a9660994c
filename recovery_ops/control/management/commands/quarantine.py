"""`manage.py quarantine`: what could not be taken in – shown, taken in again after a fix, or forgotten."""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from events.models import Quarantine
from events.moments import from_us
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.self_monitoring.services import drop_quarantine, replay_quarantine


class Command(BaseCommand):
    help = "List, replay or drop quarantined records."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, words in (
            ("list", "list records with reasons"),
            ("replay", "replay records after a fix"),
            ("drop", "drop records"),
        ):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("--environment", default=settings.ENVIRONMENT, help="Environment (%(default)s).")
            if verb != "list":
                one.add_argument("lines", nargs="*", type=int, metavar="ID", help="numbers of records (all)")
                one.add_argument(
                    "--reason", required=True, help="recorded in the audit log; to drop: at least 10 characters"
                )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] == "list":
            self._list(options["environment"])
            return
        settle = replay_quarantine if options["verb"] == "replay" else drop_quarantine
        try:
            done = settle(
                by=system_actor("manage.py quarantine", "cli"),
                environment=options["environment"],
                reason=options["reason"],
                lines=options["lines"] or None,
            ).object
        except CommandRejected as rejection:
            raise CommandError(rejection.detail) from None
        if options["verb"] == "drop":
            self.stdout.write(f"{done.settled} dropped.")
        else:
            self.stdout.write(f"{done.settled} taken in ({done.stored} new facts), {done.left} still set aside.")

    def _list(self, environment: str) -> None:
        lines = Quarantine.objects.filter(environment=environment).order_by("id")
        for line in lines:
            tried = f", replayed {line.tries} times" if line.tries else ""
            how = "" if line.encoding else ", too large to be replayed"
            self.stdout.write(
                f"{line.pk}  {from_us(line.received_us):%Y-%m-%d %H:%M:%S}  {line.signal}  {line.size_bytes} bytes  "
                f"key {line.key_prefix or '–'}  {line.reason}{tried}{how}"
            )
        if not lines:
            self.stderr.write(f"Nothing is set aside in {environment}.")
