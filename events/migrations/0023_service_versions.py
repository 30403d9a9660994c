from typing import Any

from django.conf import settings
from django.db import migrations, models
from django.db.models import Max, Min, Q
from django.db.models.fields.json import KeyTextTransform

NAME_CHARS, MINUTE_US = 200, 60_000_000


def forwards(apps: Any, schema_editor: Any) -> None:
    """What was told before counts, too: else every version that runs would be a new one. It reads every fact once."""
    told = apps.get_model("events", "Fact").objects.annotate(version=KeyTextTransform("service.version", "attributes"))
    beat = Max("at_us", filter=Q(event="instance_heartbeat"))
    moments = told.order_by().values_list("environment", "agent__service", "version")
    found: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for environment, service, version, *times in moments.annotate(first=Min("at_us"), last=Max("at_us"), beat=beat):
        if not version:
            continue
        text = str(version)
        name = (environment, service, text if len(text) <= NAME_CHARS else f"{text[: NAME_CHARS - 1]}…")
        first_us, last_us, beat_us = times[0], times[1] - times[1] % MINUTE_US, (times[2] or 0)
        beat_us -= beat_us % MINUTE_US
        held = found.get(name, (first_us, last_us, beat_us))
        found[name] = (min(held[0], first_us), max(held[1], last_us), max(held[2], beat_us))
    kind = apps.get_model("events", "ServiceVersion")
    most = settings.MOST_NAMES["version"]
    rows = [
        kind(environment=at[0], service=at[1], version=at[2], first_us=one[0], last_us=one[1], beat_us=one[2])
        for at, one in found.items()
    ]
    by_environment: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda row: -row.last_us):
        by_environment.setdefault(row.environment, []).append(row)
    kept = [row for mine in by_environment.values() for row in mine[:most]]
    kind.objects.bulk_create(kept, batch_size=500)


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0022_instance_moves"),
    ]

    operations = [
        migrations.CreateModel(
            name="ServiceVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("environment", models.CharField(max_length=64)),
                ("service", models.CharField(max_length=200)),
                ("version", models.CharField(max_length=200)),
                ("first_us", models.BigIntegerField(help_text="When the earliest fact happened that told it.")),
                ("last_us", models.BigIntegerField(help_text="The minute of the newest fact that told it.")),
                (
                    "beat_us",
                    models.BigIntegerField(
                        default=0, help_text="The minute of the newest heartbeat that told it; 0: none."
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["environment", "first_us"], name="service_version_by_first"),
                    models.Index(fields=["environment", "beat_us"], name="service_version_by_beat"),
                    models.Index(fields=["environment", "service", "first_us"], name="service_version_in_order"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("environment", "service", "version"), name="service_version_once")
                ],
            },
        ),
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
