from django.db import migrations, models
from django.utils import timezone


class Migration(migrations.Migration):
    dependencies = [
        ("control", "0029_audit_by_time"),
    ]

    operations = [
        # Of keys that were used before, nobody noted when: they are kept from now on for as long as new ones.
        migrations.AddField("usedkey", "at", models.DateTimeField(default=timezone.now), preserve_default=False),
        migrations.AddIndex("usedkey", models.Index(fields=["at"], name="used_key_at")),
    ]
