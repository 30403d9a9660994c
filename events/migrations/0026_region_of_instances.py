from django.db import migrations, models


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
    ]
