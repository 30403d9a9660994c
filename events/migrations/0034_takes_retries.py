from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0033_takes_new_work"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="takes_retries",
            field=models.BooleanField(help_text="Whether it begins runs again, if it said.", null=True),
        ),
    ]
