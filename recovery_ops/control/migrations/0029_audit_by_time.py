from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("control", "0028_escalation_saved_runs")]

    operations = [
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["environment", "at", "number"], name="audit_by_time"),
        ),
    ]
