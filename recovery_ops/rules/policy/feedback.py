"""What people wish had happened, as a change of the settings of one operation: a first draft, for people to look at."""

from __future__ import annotations

from enum import StrEnum

from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.policy.settings import SETTINGS


class Want(StrEnum):
    """What should have happened instead."""

    RETRY_MORE = "retry_more"
    RETRY_LESS = "retry_less"
    NO_RETRY = "no_retry"
    WAIT_LONGER = "wait_longer"
    FAIL_SOONER = "fail_sooner"
    OPEN_SOONER = "open_sooner"
    OPEN_LATER = "open_later"
    FALSE_ALARM = "false_alarm"
    OTHER = "other"


WORDS = {
    Want.RETRY_MORE: "more retries",
    Want.RETRY_LESS: "fewer retries",
    Want.NO_RETRY: "no retries",
    Want.WAIT_LONGER: "longer waits between attempts",
    Want.FAIL_SOONER: "an earlier failure",
    Want.OPEN_SOONER: "an earlier opening of the breaker",
    Want.OPEN_LATER: "a later opening of the breaker",
    Want.FALSE_ALARM: "none: a false alarm",
    Want.OTHER: "something else",
}
"""Each as it reads on a screen."""


def suggested(want: Want, held: Settings) -> dict[str, float | int]:
    """Settings of the operation that go one step that way from those that hold; empty where no setting says it."""
    retries = held.max_retries or 0
    background = held.max_retries_background
    background = retries if background is None else background
    calls = held.minimum_number_of_calls or 1
    steps: dict[Want, dict[str, float]] = {
        Want.RETRY_MORE: {"max_retries": retries + 2, "max_retries_background": background + 2},
        Want.RETRY_LESS: {"max_retries": retries - 1, "max_retries_background": min(background, retries - 1)},
        Want.NO_RETRY: {"max_retries": 0, "max_retries_background": 0},
        Want.WAIT_LONGER: {
            "base_delay_s": 2 * (held.base_delay_s or 0.5),
            "delay_cap_s": 2 * (held.delay_cap_s or 32.0),
        },
        Want.FAIL_SOONER: {"call_deadline_s": (held.call_deadline_s or 60.0) / 2},
        Want.OPEN_SOONER: {"minimum_number_of_calls": calls // 2, "failure_rate_threshold": _half(held)},
        Want.OPEN_LATER: {"minimum_number_of_calls": calls * 2},
        Want.FALSE_ALARM: {},  # what is a failure is said by the classification, not by a setting
        Want.OTHER: {},
    }
    return {name: _within(name, value) for name, value in steps[want].items()}


def _half(held: Settings) -> float:
    return round((held.failure_rate_threshold or 0.5) * 0.7, 2)


def _within(name: str, value: float) -> float | int:
    """As near as the setting allows."""
    setting = SETTINGS[name]
    value = min(max(value, setting.minimum), setting.maximum)
    return int(value) if setting.kind == "whole" else float(value)
