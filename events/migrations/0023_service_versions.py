from typing import Any

from django.db import migrations, models

from events.deployments.asking import read_anew


def forwards(apps: Any, schema_editor: Any) -> None:
    """What was told before counts, too: else every version that runs would be a new one."""
    read_anew()


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
