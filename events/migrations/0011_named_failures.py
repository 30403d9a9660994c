from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0010_recoveries"),
    ]

    operations = [
        migrations.CreateModel(
            name="NamedFailures",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("environment", models.CharField(max_length=64, unique=True)),
                (
                    "rules",
                    models.JSONField(default=list, help_text="What unknown failures are, as the policy says."),
                ),
            ],
        ),
    ]
