"""Where who comes first is decided by a conditional update: the same stories as on SQLite, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import pytest

from tests.control.escalations import test_escalation_silence, test_escalations
from tests.control.notifications import test_asking, test_sending, test_telling
from tests.control.runs import test_retries
from tests.events import test_capacity
from tests.support.engines import engine

__all__ = ["engine"]  # the fixture

STORIES: tuple[Callable[..., None], ...] = (
    test_sending.test_what_a_dead_worker_had_claimed_is_sent_by_another,
    test_sending.test_what_was_in_flight_is_unknown_and_not_sent_again,
    test_sending.test_who_was_only_slow_says_what_came_of_it,
    test_telling.test_nothing_is_lost_when_a_look_is_cut_off,
    test_asking.test_each_step_is_asked_once_and_everybody_hears_the_end,
    test_asking.test_who_takes_it_stops_the_chain_until_it_runs_out,
    test_asking.test_a_step_writes_to_the_person_that_it_names,
    test_escalations.test_forty_agents_that_ask_one_thing_ask_it_once,
    test_escalation_silence.test_silence_rejects_what_a_run_waits_for_and_tells_it,
    test_escalations.test_the_same_key_does_it_once,
    test_escalation_silence.test_a_failure_that_nobody_named_goes_on_failing_closed_and_waits_without_a_clock,
    test_telling.test_a_cause_that_was_resolved_and_fails_again_is_told_as_back,
    test_retries.test_it_is_state_that_one_instance_alone_is_told_with_who_why_and_the_input,
    test_retries.test_the_wish_that_it_ends_is_taken_back_with_it,
    test_capacity.test_each_breaker_is_followed_from_its_opening_until_it_is_closed_in_every_instance,
)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.removeprefix("test_"))
def test_it_is_so_on_postgresql(engine: str, story: Callable[..., None], request: pytest.FixtureRequest) -> None:
    story(**{name: request.getfixturevalue(name) for name in signature(story).parameters})
