from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0032_sums_of_calls"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="takes_new_work",
            field=models.BooleanField(help_text="Whether it begins runs, if it said.", null=True),
        ),
    ]
