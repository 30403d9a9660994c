"""`export N`: write the file of an export that was claimed. Started by the worker; nobody types it."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from typing import Any

from django.core.management import BaseCommand, CommandError

from recovery_ops.control.core.jobs import NICE
from recovery_ops.control.exports import job
from recovery_ops.control.exports.models import Export


class Command(BaseCommand):
    help = "Write a long list into a file. The worker starts it, in a process of its own."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("pk", type=int, metavar="N")

    def handle(self, *args: Any, pk: int, **options: Any) -> None:
        export = Export.objects.filter(pk=pk, state=Export.RUNNING).first()
        if export is None:
            raise CommandError(f"There is no export {pk} that was claimed.")
        with suppress(OSError):
            os.nice(NICE)
        job.run(export)
