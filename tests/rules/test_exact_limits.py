"""The exact limits of the rules: what holds at the limit itself, and what beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Any

import pytest

from recovery_ops.rules.classification.classify import Signal, classify
from recovery_ops.rules.classification.codes import category_of_status
from recovery_ops.rules.classification.error_bodies import status_in
from recovery_ops.rules.classification.retry_after import LONGEST_WAIT_S, meant_s, server_wait_s
from recovery_ops.rules.desired_state import Override, Shed
from recovery_ops.rules.enums import Category, Importance, State
from recovery_ops.rules.fleet import breaker_quorum, canary_cohort, health_gate, reset_ramp, stuck_breakers
from recovery_ops.rules.incidents import burn_rate
from recovery_ops.rules.notifications.delivery import outcome_of
from recovery_ops.rules.notifications.escalation_levels import LONGEST_S as LONGEST_LEVEL_S
from recovery_ops.rules.notifications.escalation_levels import ChainStep, Turn, clock_at, due_steps, parse_steps
from recovery_ops.rules.notifications.grouping import Held, Phase, Quiet, Sent, Severity, due_at
from recovery_ops.rules.policy.fleet_settings import QuorumRule, RampBounds, StuckBounds
from recovery_ops.rules.policy.model import FAIL_CLOSED
from recovery_ops.rules.policy.scope import Scope

NOW = 1_800_000_000.0
Row = tuple[str, Callable[[Any], Any], tuple[tuple[Any, Any], ...]]


# -- Answers of a server ----------------------------------------------------------------------------------------------
def waited(**body: Any) -> float | None:
    return server_wait_s({}, {"error": body}, "", is_rate_limit=False, now=NOW)


def reset(text: str) -> float | None:
    return server_wait_s({"x-ratelimit-reset": text}, None, "", is_rate_limit=True, now=NOW)


ANSWERS: tuple[Row, ...] = (
    (
        "status alone",
        lambda status: category_of_status(status) is not None,
        ((399, False), (400, True), (599, True), (600, False)),
    ),
    (
        "status of an exception",
        lambda status: classify(Signal(status_code=status), now=NOW).category is not Category.UNKNOWN,
        ((399, False), (400, True), (599, True), (600, False)),
    ),
    (
        "status in a body",
        lambda status: status_in({"error": {"code": status}}),
        ((399, None), (400, 400), (599, 599), (600, None)),
    ),
    (
        "wait that is meant",
        meant_s,
        ((0.0, 0.0), (0.1, 0.1), (LONGEST_WAIT_S - 1, LONGEST_WAIT_S - 1), (LONGEST_WAIT_S, 0.0)),
    ),
    (
        "seconds in a body",
        lambda wait_s: waited(retry_after=wait_s),
        ((-1, None), (0, 0.0), (1, 1.0), (float("inf"), None)),
    ),
    ("moment in a body", lambda at: waited(resets_at=at), ((NOW - 1, None), (NOW, 0.0), (NOW + 1, 1.0), (1e12, None))),
    ("reset as a moment", lambda at: reset(f"{at:.0f}"), ((NOW - 1, None), (NOW, 0.0), (NOW + 1, 1.0))),
    ("reset in seconds", lambda at: reset(f"{at:.0f}"), ((0, 0.0), (1e9 - 1, 1e9 - 1), (1e9, None))),
    (
        "reset in milliseconds",
        lambda at: reset(f"{at:.0f}"),
        ((1e12 - 1, LONGEST_WAIT_S), (1e12, None), (NOW * 1000, 0.0)),
    ),
    (
        "reset as a date",
        lambda at: reset(datetime.fromtimestamp(at, UTC).isoformat()),
        ((NOW - 1, None), (NOW, 0.0), (NOW + 1, 1.0)),
    ),
    (
        "delivery",
        lambda status: outcome_of(status).value,
        ((199, "never"), (200, "arrived"), (299, "arrived"), (300, "never"), (499, "never"), (500, "later")),
    ),
)


# -- What operators impose ---------------------------------------------------------------------------------------------
def override() -> Override:
    return Override(
        id="1",
        mode=State.FORCED_OPEN,
        scope=Scope(),
        reason="",
        by="ana",
        starts_at=10.0,
        expires_at=20.0,
        revision=1,
    )


def shed() -> Shed:
    return Shed(id="1", least=Importance.CRITICAL, reason="", by="ana", starts_at=10.0, expires_at=20.0, revision=1)


SPAN = ((9.9, False), (10.0, True), (19.9, True), (20.0, False))
IMPOSED: tuple[Row, ...] = (
    ("override", lambda now: override().holds_at(now), SPAN),
    ("load shedding", lambda now: shed().holds_at(now), SPAN),
)


# -- The fleet ---------------------------------------------------------------------------------------------------------
RULE = QuorumRule(operation="search_*", share=0.5, minimum_count=4, hold_s=30.0, expires_s=300.0)


def quorum(now: float = 100.0, **seen: Any) -> str:
    given: dict[str, Any] = {"opened": 4, "reporting": 8} | seen
    return breaker_quorum.decide(RULE, breaker_quorum.Seen(**given), now).do.value


def held(now: float = 100.0, **seen: Any) -> str:
    return quorum(now, **{"held_until": 1000.0, "witnesses": 1} | seen)


PLACE = canary_cohort.place_of("s", "research", "r-1")


def in_cohort(**limits: Any) -> bool:
    return canary_cohort.Cohort(salt="s", **limits).holds(service="research", instance="r-1")


def gate(calls: int, other: int | None = None, failures: int = 0) -> str:
    mine = health_gate.Side(word="the canary", instances=1, by_operation={"a": health_gate.Counts(calls, failures)})
    theirs = health_gate.Counts(calls if other is None else other)
    return health_gate.judge(
        mine, health_gate.Side(word="others", instances=1, by_operation={"a": theirs}), least_calls=50
    ).health.value


def silent(count: int) -> str:
    mine = health_gate.Side(word="the canary", instances=10, silent=count)
    return health_gate.judge(mine, health_gate.Side(word="others", instances=10)).health.value


MEMBER = reset_ramp.Member(name="a", since_reset_s=60.0)
BOUNDS = RampBounds(least_calls=20, least_time_s=30.0, patience_s=600.0)


def ramp(in_step_s: float) -> str:
    return reset_ramp.judge([MEMBER], step=1, steps=3, in_step_s=in_step_s, bounds=BOUNDS).go.value


STUCK = StuckBounds(half_open_s=300.0, idle_open_s=900.0, uncounted_failures=20, uncounted_share=0.5)


def stuck(**seen: Any) -> bool:
    return bool(stuck_breakers.findings(stuck_breakers.Seen(**seen), STUCK, FAIL_CLOSED))


def uncounted(failures: int, attempts: int) -> bool:
    return stuck(closed=1, attempts=attempts, failures={Category.NOT_FOUND: failures})


def burns(retries: int, calls: int, lately: int = 5) -> bool:
    """Whether the slow alert is on: for the whole long window by these counts, for the short one anyway."""
    long, short = burn_rate.Spent(calls, retries), burn_rate.Spent(lately, lately)
    spent = dict.fromkeys(burn_rate.WINDOWS_S, short) | {burn_rate.BURNS[-1].long_s: long}
    return any(one.name == "slow" for one in burn_rate.burning(spent, budget=0.1))


FLEET: tuple[Row, ...] = (
    ("quorum by count", lambda opened: quorum(opened=opened, met_since=0.0), ((3, "nothing"), (4, "trip"))),
    ("quorum by share", lambda all_: quorum(opened=6, reporting=all_, met_since=0.0), ((12, "trip"), (13, "nothing"))),
    ("quorum that lasts", lambda now: quorum(now, met_since=0.0), ((29.9, "nothing"), (30.0, "trip"))),
    (
        "quorum that rests",
        lambda now: quorum(now, met_since=0.0, rests_until=60.0),
        ((59.9, "nothing"), (60.0, "trip")),
    ),
    ("quorum that fell", lambda opened: held(opened=opened, fallen_since=0.0), ((1, "release"), (2, "nothing"))),
    (
        "quorum that stays fallen",
        lambda now: held(now, opened=1, fallen_since=0.0),
        ((29.9, "nothing"), (30.0, "release")),
    ),
    ("quorum that goes on", lambda until: held(0.0, held_until=until), ((149.9, "extend"), (150.0, "nothing"))),
    ("floor of a cohort", lambda floor: in_cohort(floor=floor), ((PLACE, True), (PLACE + 1, False))),
    ("limit of a cohort", lambda limit: in_cohort(limit=limit), ((PLACE, False), (PLACE + 1, True))),
    (
        "share of a cohort",
        lambda share: sum(
            canary_cohort.place_of("s", "a", str(one))
            < canary_cohort.limit_for("s", share, [("a", str(n)) for n in range(10)])
            for one in range(10)
        ),
        ((0.01, 1), (0.1, 1), (0.11, 2), (0.9, 9), (0.91, 10), (1.0, 10)),
    ),
    ("calls of a canary", gate, ((49, "wait"), (50, "go"))),
    ("calls of the others", lambda other: gate(50, other), ((49, "wait"), (50, "go"))),
    ("calls that show it worse", lambda calls: gate(calls, failures=calls), ((49, "wait"), (50, "roll_back"))),
    ("canary that is silent", silent, ((4, "wait"), (5, "roll_back"))),
    ("calls after a reset", lambda calls: replace(MEMBER, calls=calls).stays_closed(BOUNDS), ((19, False), (20, True))),
    (
        "time after a reset",
        lambda for_s: replace(MEMBER, closed_for_s=for_s).stays_closed(BOUNDS),
        ((29.9, False), (30.0, True)),
    ),
    ("patience of a reset", ramp, ((600.0, "wait"), (600.1, "halt"))),
    ("half-open", lambda for_s: stuck(half_open=1, half_open_for_s=for_s), ((299.9, False), (300.0, True))),
    (
        "open without calls",
        lambda idle_s: stuck(open=1, open_for_s=900.0, idle_s=idle_s),
        ((899.9, False), (900.0, True)),
    ),
    (
        "open without calls for so long",
        lambda for_s: stuck(open=1, open_for_s=for_s, idle_s=900.0),
        ((899.9, False), (900.0, True)),
    ),
    ("failures that do not count", lambda failures: uncounted(failures, 20), ((19, False), (20, True))),
    ("share that does not count", lambda attempts: uncounted(20, attempts), ((40, True), (41, False))),
    ("retries of an alert", lambda retries: burns(retries, 10), ((9, False), (10, True))),
    ("rate of an alert", lambda retries: burns(retries, 200), ((20, False), (21, True))),
    ("calls before the short window", lambda lately: burns(10, 10, lately), ((9, True), (10, False))),
    ("whole budget", burn_rate.is_over, ((1.0, False), (1.0 + 1e-6, True))),
)


# -- Who is told when --------------------------------------------------------------------------------------------------
def steps(count: int) -> bool:
    return not parse_steps([{"after_s": 60 * one, "channel": 1} for one in range(count)])[1]


def quiet(at: time, begins: int = 9, ends: int = 17) -> bool:
    local = datetime.combine(datetime(2026, 11, 21, tzinfo=UTC), at, tzinfo=UTC)
    return Quiet(begins=time(begins), ends=time(ends)).until(local) is not None


def flapped(sent_at: float) -> float | None:
    """When a move at 1000 is told, four messages after the first."""
    moved = Held(1000.0, Phase.BEGAN, Severity.WARNING, is_flappy=True)
    return due_at([moved], [Sent(sent_at, Phase.TOLD)], now=1000.0)


def asked(now: float, *turns: Turn) -> list[int]:
    chain = [ChainStep(after_s=0, channel=1), ChainStep(after_s=60, channel=2), ChainStep(after_s=120, channel=3)]
    return due_steps(chain, clock_at([Turn(0.0, "opened"), *turns], now))


TOLD: tuple[Row, ...] = (
    ("levels of a policy", steps, ((0, False), (1, True), (20, True), (21, False))),
    (
        "time of a level",
        lambda after_s: not parse_steps([{"after_s": after_s, "channel": 1}])[1],
        ((-1, False), (0, True), (LONGEST_LEVEL_S, True), (LONGEST_LEVEL_S + 1, False)),
    ),
    ("level that is due", asked, ((59.9, [0]), (60.0, [0, 1]), (120.0, [0, 1, 2]))),
    (
        "level that is passed over",
        lambda to_s: asked(61.0, Turn(30.0, "step", to_s)),
        ((60.0, [0, 1]), (120.0, [0, 2])),
    ),
    ("quiet hours", quiet, ((time(8, 59), False), (time(9), True), (time(16, 59), True), (time(17), False))),
    (
        "quiet hours over midnight",
        lambda at: quiet(at, 22, 6),
        ((time(21, 59), False), (time(22), True), (time(5, 59), True), (time(6), False)),
    ),
    ("flapping", flapped, ((700.0, 1000.0), (700.1, 1030.0))),
)


@pytest.mark.parametrize("rows", [ANSWERS, IMPOSED, FLEET, TOLD], ids=["answers", "imposed", "fleet", "told"])
def test_rule_changes_exactly_at_its_limit(rows: tuple[Row, ...], subtests: pytest.Subtests) -> None:
    for name, rule, cases in rows:
        for value, expected in cases:
            with subtests.test(name, value=value):
                assert rule(value) == expected
