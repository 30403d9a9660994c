from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("control", "0030_used_key_at"),
    ]

    operations = [
        migrations.RemoveConstraint("override", "override_once_live"),
        migrations.AddConstraint(
            "override",
            models.UniqueConstraint(
                fields=["environment", "operation", "service", "instance", "group", "starts_at"],
                condition=Q(ended_at__isnull=True),
                name="override_once_begun",
            ),
        ),
    ]
