"""Sums up how breakers moved, out of the moves that are stored."""

from collections import Counter
from typing import Any

from django.db import migrations

from events.fold import left_by
from events.sum_views import View
from events.summing import COUNTERS, SpanName, dimensions_digest, over_spans

_MINUTE_US = 60_000_000


def fill(apps: Any, schema_editor: Any) -> None:
    """Nothing was summed up of them so far."""
    fact, span_sum = apps.get_model("events", "Fact"), apps.get_model("events", "SpanSum")
    columns = ("environment", "at_us", "breaker", "state", "attributes")
    stored = fact.objects.filter(event="breaker_state_changed").exclude(state="").exclude(breaker="")
    moves = Counter(
        (environment, at_us // _MINUTE_US, breaker, f"{left_by(attributes)}>{state}")
        for environment, at_us, breaker, state, attributes in stored.values_list(*columns).iterator()
    )
    span_sum.objects.filter(view=View.MOVE).delete()
    span_sum.objects.bulk_create(
        (
            span_sum(
                **dict(zip(SpanName._fields, name, strict=True)),
                subject=name.breaker,
                dimensions=dimensions_digest(name[4:]),
                **dict(zip(COUNTERS, counters, strict=True)),
            )
            for name, counters in over_spans({}, moves).items()
        ),
        batch_size=500,
    )


class Migration(migrations.Migration):
    dependencies = [("events", "0007_fact_by_run")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
