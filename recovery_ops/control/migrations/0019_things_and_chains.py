"""What a message of several tells of each; when a chain was set up: those that are there hold for whatever is open."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("control", "0018_counted_to_number")]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="things",
            field=models.JSONField(
                default=list, help_text="What a message of several tells of each, as control.notify.formats reads it."
            ),
        ),
        migrations.AddField(
            model_name="escalationchain",
            name="since",
            field=models.DateTimeField(default=datetime(2000, 1, 1, tzinfo=UTC)),
            preserve_default=False,
        ),
    ]
