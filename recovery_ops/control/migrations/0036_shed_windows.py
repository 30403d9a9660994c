from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("control", "0035_annotations_and_watches"),
    ]

    operations = [
        migrations.RemoveConstraint("loadshed", "load_shed_once_live"),
        migrations.AddConstraint(
            "loadshed",
            models.UniqueConstraint(
                fields=["environment", "starts_at"],
                condition=Q(ended_at__isnull=True),
                name="load_shed_once_live",
            ),
        ),
    ]
