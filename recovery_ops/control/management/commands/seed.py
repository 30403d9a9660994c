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
    help = "Store generated events of a fleet with failures. The same arguments give the same events."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--facts", type=int, default=100_000, help="Events (%(default)s).")
        parser.add_argument("--agents", type=int, default=40, help="Instances (%(default)s).")
        parser.add_argument("--breakers", type=int, default=40, help="Breakers (%(default)s).")
        parser.add_argument("--runs", type=int, default=5_000, help="Runs (%(default)s).")
        parser.add_argument("--escalations", type=int, default=0, help="Escalations (%(default)s).")
        parser.add_argument("--days", type=float, default=7.0, help="Days before `--until` (%(default)s).")
        parser.add_argument("--until", type=_moment, help="Time of the last event, ISO 8601 (now).")
        parser.add_argument("--seed", type=int, default=1, help="Seed of the generator (%(default)s).")
        parser.add_argument("--environment", default=settings.ENVIRONMENT, help="Environment (%(default)s).")

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
