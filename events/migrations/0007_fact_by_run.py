"""Facts of a run by its id; only those that are of one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("events", "0006_days")]

    operations = [
        migrations.AddIndex(
            model_name="fact",
            index=models.Index(
                fields=["environment", "run", "at_us"], name="fact_by_run", condition=models.Q(run__gt="")
            ),
        ),
    ]
