"""Sums up calls and attempts by operation and source, out of the sums by minutes."""

from itertools import groupby
from typing import Any

from django.db import migrations

from events.sum_views import View
from events.summing import COUNTERS, SpanName, SumName, dimensions_digest, over_spans

_LONGEST = 120


def fill(apps: Any, schema_editor: Any) -> None:
    """Nothing was summed up so by now, or all of it is made anew."""
    minute_sum, span_sum = apps.get_model("events", "MinuteSum"), apps.get_model("events", "SpanSum")
    span_sum.objects.filter(view=View.EFFORT).delete()
    stored = minute_sum.objects.order_by("minute").values_list(*SumName._fields, *COUNTERS).iterator()
    size = len(SumName._fields)
    # No span reaches over the end of the longest one.
    for _, rows in groupby(stored, key=lambda row: row[1] // _LONGEST):
        spans = over_spans({SumName._make(row[:size]): list(row[size:]) for row in rows}, {})
        span_sum.objects.bulk_create(
            (
                span_sum(
                    **dict(zip(SpanName._fields, name, strict=True)),
                    subject=name.breaker or name.operation,
                    dimensions=dimensions_digest(name[4:]),
                    **dict(zip(COUNTERS, counters, strict=True)),
                )
                for name, counters in spans.items()
                if name.view == View.EFFORT
            ),
            batch_size=500,
        )


class Migration(migrations.Migration):
    dependencies = [("events", "0012_span_marks")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
