from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0019_regions"),
    ]

    operations = [
        migrations.AddField(
            model_name="agentkey",
            name="requests_per_s",
            field=models.IntegerField(
                blank=True,
                help_text="Of each scope, by each process; null: what the settings say, 0: no limit.",
                null=True,
            ),
        ),
    ]
