"""Escalations keep the terms that they were opened under; those that are there began with what was fixed then."""

from typing import Any

from django.db import migrations, models
from django.db.models import Q

_HIGH = ("policy_denied", "permission", "quota_exhausted", "reversal_refused")
_NORMAL = ("permission_denials", "unknown", "errors")
_AT_ONCE = 500


def keep_their_terms(apps: Any, schema_editor: Any) -> None:
    """Severity went by the reason, else by the category; of a run that waits, the time to resolve was its own."""
    escalations = apps.get_model("control", "Escalation").objects
    escalations.filter(Q(reason__in=_HIGH) | (Q(category__in=_HIGH) & ~Q(reason__in=_NORMAL))).update(severity="high")
    changed = []
    for one in escalations.only("opened_at", "resolve_by", "resolve_in_s").iterator():
        one.resolve_in_s = max(0.0, (one.resolve_by - one.opened_at).total_seconds())
        changed.append(one)
    escalations.bulk_update(changed, ["resolve_in_s"], batch_size=_AT_ONCE)


class Migration(migrations.Migration):
    dependencies = [("control", "0021_people_and_cache")]

    operations = [
        migrations.AddField(
            model_name="escalation",
            name="severity",
            field=models.CharField(default="normal", help_text="As the policy said when it was opened.", max_length=16),
        ),
        migrations.AddField(
            model_name="escalation",
            name="acknowledge_in_s",
            field=models.FloatField(default=900.0, help_text="Seconds; as the policy said when it was opened."),
        ),
        migrations.AddField(
            model_name="escalation",
            name="resolve_in_s",
            field=models.FloatField(default=1800.0, help_text="Seconds; of a run that waits, how long it does."),
        ),
        migrations.RunPython(keep_their_terms, migrations.RunPython.noop),
    ]
