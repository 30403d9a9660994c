"""Detection, end to end: facts over OTLP to a real server are an event after the next look of its worker."""

from __future__ import annotations

import time

import pytest
from django.conf import settings

from recovery_ops.bench.detection import AIM_S, events_of, seen_after_s
from recovery_ops.bench.served import served

LOOK = settings.CELERY_BEAT_SCHEDULE["look for outages"]


@pytest.mark.default
def test_the_schedule_looks_at_least_every_five_seconds() -> None:
    """So ten seconds hold one whole period, and as long again for the look itself."""
    assert LOOK["task"] == "events.tasks.look_for_outages"
    assert LOOK["schedule"] <= 5.0


def test_a_burst_over_otlp_is_one_event_after_the_next_look_and_stays_one() -> None:
    with served() as server:
        assert events_of(server, "helios") == []
        soonest_s = seen_after_s(server, "helios")
        if soonest_s > AIM_S:  # a busy machine has one more chance, with a burst of its own
            soonest_s = seen_after_s(server, "selene")
        assert soonest_s <= AIM_S, "from the fifth failure's acknowledgement to the API's answer"
        [event] = events_of(server, "helios")
        assert (event["provider"], event["is_over"]) == ("helios", False)
        time.sleep(LOOK["schedule"] + 1)
        assert [one["number"] for one in events_of(server, "helios")] == [event["number"]]
