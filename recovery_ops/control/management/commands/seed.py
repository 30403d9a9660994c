"""`manage.py seed`: fills the store with made-up facts, to measure with and to look at full pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from events.models import Fact
from events.seeding import Plan, seed
from recovery_ops.control.escalations.seed import MadeUp, hold, let_go


class Command(BaseCommand):
    help = "Fill the store with made-up facts of a fleet that had trouble. The same numbers give the same facts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--facts", type=int, default=100_000, help="How many. Default: %(default)s.")
        parser.add_argument("--agents", type=int, default=40, help="Instances. Default: %(default)s.")
        parser.add_argument("--breakers", type=int, default=40, help="Each an operation. Default: %(default)s.")
        parser.add_argument("--runs", type=int, default=5_000, help="Default: %(default)s.")
        parser.add_argument("--escalations", type=int, default=0, help="Questions to people. Default: %(default)s.")
        parser.add_argument("--days", type=float, default=7.0, help="How far they reach back. Default: %(default)s.")
        parser.add_argument("--until", type=_moment, help="When the last one happened (ISO, UTC); now if not given.")
        parser.add_argument("--seed", type=int, default=1, help="Another number, other facts. Default: %(default)s.")
        parser.add_argument("--environment", default=settings.ENVIRONMENT, help="Default: %(default)s.")

    def handle(self, *args: Any, **options: Any) -> None:
        numbers = {name: options[name] for name in ("facts", "agents", "breakers", "runs")}
        if min(numbers.values()) < 1 or options["days"] <= 0 or options["escalations"] < 0:
            raise CommandError("Every number has to be at least 1 (--escalations may be 0).")
        if Fact._meta.db_table not in connection.introspection.table_names():
            call_command("migrate", interactive=False, verbosity=0)  # a store that nobody has served yet
        end = options["until"] or timezone.now()
        plan = Plan(
            **numbers,
            start=end - timedelta(days=options["days"]),
            end=end,
            environment=options["environment"],
            seed=options["seed"],
        )
        people = MadeUp(plan, options["escalations"])
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task("facts", total=plan.facts)
            questions = progress.add_task("escalations", total=options["escalations"], visible=people.is_any)
            for made in seed(plan):
                if people.is_any:
                    hold(plan.environment, timezone.now())
                progress.update(bar, completed=made)
                for asked in people.until(plan.start + (plan.end - plan.start) * (made / plan.facts)):
                    progress.update(questions, completed=asked)
        let_go(plan.environment)
        asked_too = f", {people.asked} escalations" if people.is_any else ""
        self.stdout.write(f"{plan.facts} facts of {plan.agents} instances in {plan.environment}{asked_too}.")


def _moment(words: str) -> datetime:
    moment = datetime.fromisoformat(words)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
