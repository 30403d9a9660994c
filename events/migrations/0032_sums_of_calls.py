from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("events", "0031_days_of_runs"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="spansum",
            index=models.Index(
                condition=models.Q(("provider__gt", ""), ("service__gt", "")),
                fields=["environment", "view", "provider", "minutes", "span", "service"],
                name="span_sum_of_provider",
            ),
        ),
        migrations.AddIndex(
            model_name="spansum",
            index=models.Index(
                condition=models.Q(("service__gt", "")),
                fields=["environment", "view", "service", "minutes", "span"],
                name="span_sum_of_service",
            ),
        ),
        migrations.AddIndex(
            model_name="spansum",
            index=models.Index(
                condition=models.Q(
                    ("service__gt", ""), models.Q(("fallbacks__gt", 0), ("rejections__gt", 0), _connector="OR")
                ),
                fields=["environment", "view", "minutes", "span", "service"],
                name="span_sum_refused",
            ),
        ),
    ]
