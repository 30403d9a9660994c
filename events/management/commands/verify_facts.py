"""`manage.py verify_facts`: whether every folded table is what its facts say."""

from __future__ import annotations

from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from events.models import Fact
from events.projections.verification import differences, one_moment, refold
from recovery_ops.server.progress_bars import progress_bar

_MOST_SHOWN = 20


class Command(BaseCommand):
    help = "Compute all sums from the events again and compare; exit code 1 if they differ."

    def handle(self, *args: Any, **options: Any) -> None:
        with one_moment():
            with progress_bar("facts", Fact.objects.count()) as tell:
                folded, count = refold(tell)
            with progress_bar("comparing with the tables", None):
                found = list(islice(differences(folded, timezone.now()), _MOST_SHOWN + 1))
        for difference in found[:_MOST_SHOWN]:
            self.stdout.write(difference)
        if len(found) > _MOST_SHOWN:
            self.stdout.write("… and more")
        if found:
            raise CommandError(f"The tables are not what their {count} facts say.")
        self.stdout.write(
            f"{count} facts say what the tables say: {len(folded.agents)} agents, {len(folded.breakers)} breakers,"
            f" {len(folded.settings)} tables of settings,"
            f" {sum(len(one) for one in folded.markers.values())} degradation facts, {len(folded.sums)} sums."
        )
