"""Replays the week before NOW in one store: `replayed.py NOW ENVIRONMENT`; says a line of JSON.

The store is the one that the environment's variables name. Two proposals retry less and open breakers sooner than the
live policy: one everywhere, so that all that was recorded is decided twice, the other for the operation that failed
most, which is how policies are mostly edited.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import Counter
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any

WEEK = timedelta(days=7)
_SETTINGS = {"max_retries": 1, "consecutive_failures": 1}


def main(end: str, environment: str) -> None:
    """Read the recording, then decide it again under each proposal; say how long it took."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    import django

    django.setup()
    from django.conf import settings

    from events.queries.recordings import Part, recordings, sort_on_disk

    sort_on_disk(settings.DATA_DIR)  # as the process of a replay does
    until = datetime.fromisoformat(end)
    since = until - WEEK
    part = Part(environment=environment, start_us=int(since.timestamp() * 1e6), end_us=int(until.timestamp() * 1e6))
    failures: Counter[str] = Counter()
    began = perf_counter()
    for _, told in recordings(part):
        failures.update(fact.operation for fact in told if fact.category)
    read_s = perf_counter() - began
    [(operation, _)] = failures.most_common(1)
    scopes: dict[str, dict[str, str]] = {"everything": {}, "usual": {"operation": operation}}
    replays = {
        what: _replayed(environment, until, number, scope)
        for number, (what, scope) in enumerate(scopes.items(), start=1)
    }
    rss_mb = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    print(json.dumps({"read_s": read_s, **replays, "rss_mb": rss_mb}))


def _replayed(environment: str, until: datetime, number: int, scope: dict[str, str]) -> dict[str, Any]:
    """How long one proposal takes, by the clock and by the processors."""
    from recovery_ops.control.replay import job
    from recovery_ops.control.replay.models.replays import Replay
    from recovery_ops.rules.policy.model import BUILT_IN, document_of

    live = document_of(BUILT_IN)
    asked = Replay.objects.create(
        environment=environment,
        number=number,
        old_version="built-in",
        old_document=live,
        new_document={**live, "rules": [{"id": "less", "scope": scope, "settings": _SETTINGS}]},
        start_at=until - WEEK,
        end_at=until,
        by="bench",
        asked_at=until,
    )
    job.claim(asked.pk, now=until)
    asked.refresh_from_db()
    began, busy_s = perf_counter(), _busy_s()
    job.run(asked, processes=min(job.MOST_PROCESSES, os.cpu_count() or 1))
    took_s = perf_counter() - began
    asked.refresh_from_db()
    if asked.result is None:
        raise SystemExit(f"the replay is {asked.state}: {asked.problem}")
    affected = asked.result["affected_calls"]
    counts = {"facts": asked.done_facts, "calls": asked.result["calls"], "affected": affected}
    return {"took_s": took_s, "busy_s": _busy_s() - busy_s, **counts}


def _busy_s() -> float:
    """Processor time of this process, and of those that it has seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main(*sys.argv[1:])
