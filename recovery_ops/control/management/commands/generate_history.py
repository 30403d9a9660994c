"""`generate_history ENVIRONMENT`: store the demonstration's history. `up` starts it once; nobody types it."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from typing import Any

from django.core.management import BaseCommand
from django.utils import timezone

from recovery_ops.control.core.jobs import NICE
from recovery_ops.control.demonstration.history import generate_history


class Command(BaseCommand):
    help = "Store an hour of generated history before the demonstration's first start."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("environment")

    def handle(self, *args: Any, environment: str, **options: Any) -> None:
        with suppress(OSError):
            os.nice(NICE)  # whoever looks at the first page comes first
        stored = generate_history(environment, timezone.now())
        self.stdout.write(f"{stored} events")
