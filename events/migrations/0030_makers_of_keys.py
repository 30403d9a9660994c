from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0029_costs_of_operations"),
    ]

    operations = [
        migrations.AddField(
            model_name="agentkey",
            name="last_used_from",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="agentkey",
            name="made_by",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=200,
            ),
        ),
    ]
