"""Puts messages that are due into the outbox of the store that the environment names: `queued.py HOST COUNT NAME`.

Each is a message of its own, as a rule without grouping makes them: none waits for another. HOST is where they go.
"""

from __future__ import annotations

import os
import sys
from typing import Any

ENVIRONMENT = "dev"


def main(host: str, count: str, name: str) -> None:
    """Make the channel, and the messages in one transaction."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    import django

    django.setup()
    from django.utils import timezone

    from recovery_ops.control.core.actors import system_actor
    from recovery_ops.control.notifications.models.notifications import Delivery
    from recovery_ops.control.notifications.services.settings import save_channel

    now = timezone.now()
    frame: dict[str, Any] = {
        "by": system_actor("bench"),
        "environment": ENVIRONMENT,
        "reason": "To measure how fast messages go out.",
    }
    channel = save_channel(**frame, now=now, name=name, kind="webhook", address=f"http://{host}/", secret="s" * 16)
    Delivery.objects.bulk_create(
        Delivery(
            environment=ENVIRONMENT,
            channel_id=channel.object.pk,
            origin=f"{name}-{number}",
            lane=f"{name}-{number}",
            phase="began",
            severity="info",
            title=f"Message {number}",
            made_at=now,
            not_before=now,
        )
        for number in range(int(count))
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
