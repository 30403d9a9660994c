"""`manage.py seed`: fills the store with made-up facts, to measure with and to look at full pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from events.seeding import Plan, seed


class Command(BaseCommand):
    help = "Fill the store with made-up facts of a fleet that had trouble. The same numbers give the same facts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--facts", type=int, default=100_000, help="How many. Default: %(default)s.")
        parser.add_argument("--agents", type=int, default=40, help="Instances. Default: %(default)s.")
        parser.add_argument("--breakers", type=int, default=40, help="Each an operation. Default: %(default)s.")
        parser.add_argument("--runs", type=int, default=5_000, help="Default: %(default)s.")
        parser.add_argument("--days", type=float, default=7.0, help="How far they reach back. Default: %(default)s.")
        parser.add_argument("--until", type=_moment, help="When the last one happened (ISO, UTC); now if not given.")
        parser.add_argument("--seed", type=int, default=1, help="Another number, other facts. Default: %(default)s.")
        parser.add_argument("--environment", default=settings.ENVIRONMENT, help="Default: %(default)s.")

    def handle(self, *args: Any, **options: Any) -> None:
        numbers = {name: options[name] for name in ("facts", "agents", "breakers", "runs")}
        if min(numbers.values()) < 1 or options["days"] <= 0:
            raise CommandError("Every number has to be at least 1.")
        end = options["until"] or timezone.now()
        plan = Plan(
            **numbers,
            start=end - timedelta(days=options["days"]),
            end=end,
            environment=options["environment"],
            seed=options["seed"],
        )
        columns = TextColumn("seeding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task("seeding", total=plan.facts)
            for made in seed(plan):
                progress.update(bar, completed=made)
        self.stdout.write(f"{plan.facts} facts of {plan.agents} instances in {plan.environment}.")


def _moment(words: str) -> datetime:
    moment = datetime.fromisoformat(words)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
