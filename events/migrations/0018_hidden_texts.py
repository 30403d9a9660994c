from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0017_capacity_moves"),
    ]

    operations = [
        migrations.CreateModel(
            name="HiddenTexts",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("environment", models.CharField(max_length=64, unique=True)),
                (
                    "section",
                    models.JSONField(default=dict, help_text="What is masked beside what is masked anyway."),
                ),
            ],
        ),
    ]
