"""Replays the week before NOW in one store: `replayed.py NOW ENVIRONMENT`; says a line of JSON.

The store is the one that the environment's variables name. The proposed policy retries less and opens breakers sooner
than the live one, everywhere: all that was recorded is decided twice.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from datetime import datetime, timedelta
from time import perf_counter

WEEK = timedelta(days=7)


def main(end: str, environment: str) -> None:
    """Read the recording, then decide it again; say how long both took."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    import django

    django.setup()
    from events.queries.recordings import Part, recordings
    from recovery_ops.control.models import Replay
    from recovery_ops.control.replay import job
    from recovery_ops.rules.policy import BUILT_IN, document_of

    until = datetime.fromisoformat(end)
    since = until - WEEK
    live = document_of(BUILT_IN)
    rule = {"id": "less", "scope": {}, "knobs": {"max_retries": 1, "failure_rate_threshold": 0.2}}
    part = Part(environment=environment, start_us=int(since.timestamp() * 1e6), end_us=int(until.timestamp() * 1e6))
    began = perf_counter()
    for _, told in recordings(part):
        for _ in told:
            pass
    read_s = perf_counter() - began
    asked = Replay.objects.create(
        environment=environment,
        number=1,
        old_version="built-in",
        old_document=live,
        new_document={**live, "rules": [rule]},
        start_at=since,
        end_at=until,
        by="bench",
        asked_at=until,
    )
    job.claim(asked.pk, now=until)
    asked.refresh_from_db()
    began = perf_counter()
    job.run(asked, processes=min(job.MOST_PROCESSES, os.cpu_count() or 1))
    took_s = perf_counter() - began
    asked.refresh_from_db()
    if asked.result is None:
        raise SystemExit(f"the replay is {asked.state}: {asked.problem}")
    rss_mb = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    told_of = {"read_s": read_s, "took_s": took_s, "facts": asked.done_facts, "calls": asked.result["calls"]}
    print(json.dumps(told_of | {"rss_mb": rss_mb}))


if __name__ == "__main__":
    main(*sys.argv[1:])
