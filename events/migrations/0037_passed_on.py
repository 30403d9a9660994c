from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0036_breakers_own_facts"),
    ]

    operations = [
        migrations.AddField(
            model_name="spanmark",
            name="passed_on",
            field=models.JSONField(
                help_text="The failure that its own error would be, where it only passes one on.", null=True
            ),
        ),
    ]
