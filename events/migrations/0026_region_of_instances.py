from typing import Any

from django.db import migrations, models


def forwards(apps: Any, schema_editor: Any) -> None:
    """What the newest heartbeat of each instance said already: the table is what folding its facts again makes."""
    kind = apps.get_model("events", "Agent")
    facts = apps.get_model("events", "Fact").objects.filter(event="instance_heartbeat")
    for agent in kind.objects.exclude(heartbeat_us=None).only("pk", "heartbeat_us").iterator():
        told = facts.filter(agent_id=agent.pk, at_us=agent.heartbeat_us).order_by("sequence_number", "uid")
        if region := told.values_list("region", flat=True).last():
            kind.objects.filter(pk=agent.pk).update(region=region)


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0025_absorbed_events"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="region",
            field=models.CharField(db_default="", default="", help_text="Where it runs, if it said.", max_length=200),
        ),
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
