"""Settings → Notifications: set up and changed by an editor, audited, and never showing what is secret."""

from __future__ import annotations

from typing import Any

from django.test import Client

from recovery_ops.control.notifications.models.notifications import Channel
from tests.support.pages import REASON

HOME = "/settings/notifications"


def new_rule(client: Client, **changed: Any) -> Any:
    form = {
        "name": "escalations",
        "channel": str(Channel.objects.get().pk),
        "triggers": ["escalation", "sla"],
        "operation": "*",
        "queue": "*",
        "least_severity": "info",
        "failures": "100",
        "within_min": "5",
        "expiry_lead_min": "10",
        "group_s": "0",
        "quiet_from": "",
        "quiet_to": "",
        "quiet_zone": "UTC",
        "quiet_passes": "critical",
        "is_on": "on",
        "reason": REASON,
        "key": "r-1",
    }
    return client.post(f"{HOME}/rules/new", form | changed)
