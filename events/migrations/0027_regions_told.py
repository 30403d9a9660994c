from typing import Any

from django.db import migrations
from django.db.models import Max

KEPT_US = 7 * 86_400_000_000
"""Heartbeats are kept so long."""


def forwards(apps: Any, schema_editor: Any) -> None:
    """What the newest heartbeat of each instance said already: the table is what folding its facts again makes."""
    kind = apps.get_model("events", "Agent")
    facts = apps.get_model("events", "Fact").objects.filter(event="instance_heartbeat")
    newest_us = kind.objects.aggregate(newest=Max("heartbeat_us"))["newest"]
    if newest_us is None:
        return
    lately = kind.objects.filter(heartbeat_us__gte=newest_us - KEPT_US)
    for pk, environment, at_us in list(lately.values_list("pk", "environment", "heartbeat_us")):
        # By `fact_by_event`: SQLite would take the index of instances for no such condition.
        told = facts.filter(environment=environment, at_us=at_us, agent_id=pk).order_by("sequence_number", "uid")
        if region := told.values_list("region", flat=True).last():
            kind.objects.filter(pk=pk, heartbeat_us=at_us).update(region=region)


class Migration(migrations.Migration):
    atomic = False  # instances are locked one by one: facts come in meanwhile, and what they say is newer

    dependencies = [
        ("events", "0026_region_of_instances"),
    ]

    operations = [
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
