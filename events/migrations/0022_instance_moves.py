from typing import Any

import django.db.models.deletion
from django.db import migrations, models

from events.lanes_anew import sum_lanes_anew


def forwards(apps: Any, schema_editor: Any) -> None:
    """What moved before is drawn, too."""
    sum_lanes_anew()


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0021_counted_by_fact"),
    ]

    operations = [
        migrations.CreateModel(
            name="InstanceMoves",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("environment", models.CharField(max_length=64)),
                ("breaker", models.CharField(blank=True, default="", max_length=200)),
                ("minutes", models.SmallIntegerField(help_text="How long the span is.")),
                ("span", models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`.")),
                ("moves", models.BigIntegerField()),
                ("worst", models.SmallIntegerField()),
                ("first", models.BigIntegerField()),
                ("last", models.BigIntegerField()),
                (
                    "agent",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="events.agent",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["minutes", "span"], name="instance_moves_by_time")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("environment", "breaker", "minutes", "span", "agent"), name="instance_moves_once"
                    )
                ],
            },
        ),
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
