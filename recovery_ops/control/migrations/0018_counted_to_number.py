"""What came since a decision on a failure is counted by the numbers of facts, no longer by their moments."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def begin_now(apps: Any, editor: Any) -> None:
    """What was counted so far stays counted; the next look begins with the next fact."""
    newest = apps.get_model("events", "Fact").objects.order_by("-pk").values_list("pk", flat=True).first()
    apps.get_model("control", "FailureCase").objects.update(counted_to=newest or 0)


class Migration(migrations.Migration):
    dependencies = [("control", "0017_unknown_causes"), ("events", "0013_effort")]

    operations = [
        migrations.RemoveField("failurecase", "counted_to"),
        migrations.AlterField(
            model_name="failurecase",
            name="seen_more",
            field=models.IntegerField(default=0, help_text="Failures that came in since it was decided."),
        ),
        migrations.AddField(
            model_name="failurecase",
            name="counted_to",
            field=models.BigIntegerField(default=0, help_text="The number of the last fact counted for that."),
        ),
        migrations.RunPython(begin_now, migrations.RunPython.noop),
    ]
