"""`replay N`: do the work of a replay that was claimed. Started by the worker; nobody types it."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from django.db import connections

from events.queries.recordings import sort_on_disk
from recovery_ops.control.replay import job
from recovery_ops.control.replay.models.replays import Replay


class Command(BaseCommand):
    help = "Decide what was recorded again, under another policy. The worker starts it, in a process of its own."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("pk", type=int, metavar="N")

    def handle(self, *args: Any, pk: int, **options: Any) -> None:
        replay = Replay.objects.filter(pk=pk, state=Replay.RUNNING).first()
        if replay is None:
            raise CommandError(f"There is no replay {pk} that was claimed.")
        with suppress(OSError):
            os.nice(job.NICE)
        sort_on_disk(settings.DATA_DIR)
        with ThreadPoolExecutor(1) as another:  # a thread has a connection of its own
            processes = min(job.MOST_PROCESSES, os.cpu_count() or 1)
            job.run(replay, apart=lambda work: another.submit(work).result(), processes=processes)
            another.submit(connections.close_all).result()
