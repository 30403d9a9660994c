"""How long what people asked for once is kept: replays, whose results are large and soon out of date."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from recovery_ops.control.models import Replay


def sweep_replays(now: datetime) -> int:
    """Delete replays that ended longer ago than KEEP_REPLAYS_DAYS, and their logs; return how many."""
    before = now - timedelta(days=settings.KEEP_REPLAYS_DAYS)
    old = Replay.objects.exclude(state__in=Replay.UNFINISHED).filter(finished_at__lt=before)
    swept = list(old.values_list("pk", "environment", "number"))
    for pk, environment, number in swept:
        (settings.DATA_DIR / "replays" / f"{environment}-{number}.log").unlink(missing_ok=True)
        Replay.objects.filter(pk=pk).delete()
    return len(swept)
