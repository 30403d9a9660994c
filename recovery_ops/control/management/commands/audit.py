"""Proves that the audit log is as it was written, or names the first row that is not."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery_ops.control.audit import chains, verify


class Command(BaseCommand):
    help = "Check the audit log's hash chains."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="verify")
        one = verbs.add_parser("verify", help="walk the chains; exit code 1 where one is broken")
        one.add_argument("--environment", help="one environment; without it, every one")

    def handle(self, *args: Any, **options: Any) -> None:
        reports = [verify(name) for name in ([options["environment"]] if options["environment"] else chains())]
        for report in reports:
            said = report.problem or f"{report.verified} rows verified, head {report.head_hash or '(nothing yet)'}"
            self.stdout.write(f"{report.environment}\t{said}")
        if not reports:
            self.stdout.write("Nobody has changed anything yet.")
        broken = [report.environment for report in reports if not report.is_whole]
        if broken:
            raise CommandError(f"The audit log of {', '.join(broken)} is not as it was written.")
