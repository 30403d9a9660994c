from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("control", "0037_exports"),
    ]

    operations = [
        migrations.AddField(
            model_name="failurecase",
            name="archived_usual",
            field=models.IntegerField(
                help_text="It comes back when it escalates: so many failures its busiest hour of the day before had.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="failurecase",
            name="hour_began",
            field=models.DateTimeField(help_text="Since when failures are counted for that.", null=True),
        ),
        migrations.AddField(
            model_name="failurecase",
            name="hour_seen",
            field=models.IntegerField(default=0, help_text="Failures that came in since then."),
        ),
        migrations.AddField(
            model_name="failurecase",
            name="versions",
            field=models.JSONField(
                help_text="It is resolved in the next version: service → the versions known when that was said.",
                null=True,
            ),
        ),
    ]
