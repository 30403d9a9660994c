"""How long what people asked for once is kept: replays and exports, whose results are large and soon out of date, and
what a key was used for.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from django.conf import settings

from recovery_ops.control.core.models.audit import UsedKey
from recovery_ops.control.exports.models import Export
from recovery_ops.control.replay.models.replays import Replay

KEEP_USED_KEYS = timedelta(days=30)
"""Nobody asks again with a key after so long. That it was used stands in the audit log for good."""
KEEP_EXPORTS = 20
"""Of one environment, the newest that have ended: no file is longer than `exporting.job` lets it be."""
_AT_ONCE = 2000
"""Rows in one transaction: who writes meanwhile waits some milliseconds at most."""


def sweep_replays(now: datetime) -> int:
    """Delete replays that ended longer ago than KEEP_REPLAYS_DAYS, and their logs; return how many."""
    before = now - timedelta(days=settings.KEEP_REPLAYS_DAYS)
    old = Replay.objects.exclude(state__in=Replay.UNFINISHED).filter(finished_at__lt=before)
    swept = list(old.values_list("pk", "environment", "number"))
    for pk, environment, number in swept:
        (settings.DATA_DIR / "replays" / f"{environment}-{number}.log").unlink(missing_ok=True)
        Replay.objects.filter(pk=pk).delete()
    return len(swept)


def sweep_exports(now: datetime) -> int:
    """Delete exports that ended longer ago than KEEP_EXPORTS_DAYS, those beyond the newest KEEP_EXPORTS of each
    environment, and their logs; return how many.
    """
    before = now - timedelta(days=settings.KEEP_EXPORTS_DAYS)
    over = Export.objects.exclude(state__in=Export.UNFINISHED).order_by("environment", "-finished_at", "-pk")
    kept: Counter[str] = Counter()
    swept = 0
    for pk, environment, number, finished_at in over.values_list("pk", "environment", "number", "finished_at"):
        kept[environment] += 1
        if kept[environment] > KEEP_EXPORTS or (finished_at is not None and finished_at < before):
            (settings.DATA_DIR / "exports" / f"{environment}-{number}.log").unlink(missing_ok=True)
            Export.objects.filter(pk=pk).delete()
            swept += 1
    return swept


def sweep_used_keys(now: datetime) -> int:
    """Delete what keys were used for longer ago than KEEP_USED_KEYS; return how many."""
    old = UsedKey.objects.filter(at__lt=now - KEEP_USED_KEYS).order_by("at")
    swept = 0
    while found := list(old.values_list("pk", flat=True)[:_AT_ONCE]):
        swept += UsedKey.objects.filter(pk__in=found).delete()[0]
    return swept
