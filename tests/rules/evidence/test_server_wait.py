"""The server's word on when to come back: which place wins, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.retry_after import LONGEST_WAIT_S, server_wait_s

NOW = 1_800_000_000.0
"""2027-01-15 08:00:00 UTC"""


def wait(
    headers: dict[str, str], body: dict[str, object] | None = None, *, message: str = "", limit: bool = True
) -> float | None:
    return server_wait_s(headers, body, message, is_rate_limit=limit, now=NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("17", 17.0),
        (" 0.5 ", 0.5),
        ("0", 0.0),
        (".25", 0.25),
        ("Fri, 15 Jan 2027 08:01:30 GMT", 90.0),
        ("Friday, 15-Jan-27 08:01:30 GMT", 90.0),
        ("Fri Jan 15 08:01:30 2027", 90.0),
        ("Fri, 15 Jan 2027 07:59:59 GMT", None),
        ("Fri, 35 Jan 2027 08:01:30 GMT", None),
        ("Fri, 15 Xyz 2027 08:01:30 GMT", None),
        ("Fri, 15 anf 2027 08:01:30 GMT", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("9" * 20, LONGEST_WAIT_S),
        ("9" * 400, LONGEST_WAIT_S),
        ("soon", None),
        ("", None),
        ("１７", None),
    ],
)
def test_retry_after(text: str, seconds: float | None) -> None:
    assert wait({"retry-after": text}) == seconds


def test_milliseconds_come_first() -> None:
    assert wait({"retry-after-ms": "8204", "retry-after": "9"}) == 8.204
    assert wait({"retry-after-ms": "-5", "retry-after": "9"}) == 9.0


@pytest.mark.parametrize(("epoch", "seconds"), [(NOW - 1, None), (NOW, 0.0), (NOW + 1, 1.0)])
def test_reset_moment_is_counted_from_now(epoch: float, seconds: float | None) -> None:
    assert wait({}, {"error": {"resets_at": epoch}}) == seconds


def test_the_header_beats_the_body_and_the_body_beats_the_reset_headers() -> None:
    body: dict[str, object] = {"error": {"details": [{"retryDelay": "26s"}]}}
    resets = {"x-ratelimit-reset-requests": "6m0s"}
    assert wait({"retry-after": "3", **resets}, body) == 3.0
    assert wait(resets, body) == 26.0
    assert wait(resets) == 360.0
    assert wait({"retry-after": "nan", **resets}) == 360.0


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": {"resets_in_seconds": 13872, "resets_at": 1}}, 13872.0),
        ({"error": {"resets_at": NOW + 60}}, 60.0),
        ({"error": {"resets_at": NOW - 60}}, None),
        ({"error": {"resets_at": "2027-01-15"}}, None),
        ({"retry_after": 1.5}, 1.5),
        ({"retry_after": True}, None),
        ({"retry_after": -1}, None),
        ({"retry_after": 10**400}, LONGEST_WAIT_S),
        ({"retry_after": float("nan")}, None),
        ({"error": {"details": [{"retryDelay": "1.5s"}]}}, 1.5),
        ({"error": {"details": [{"retryDelay": "soon"}]}}, None),
        ({"error": {"details": [{"retryDelay": ""}]}}, None),
        ({"error": {"details": [{"retryDelay": "1h2m3.5s"}]}}, 3723.5),
        ({"error": {"details": ["x", {"@type": "y"}]}}, None),
        ({}, None),
    ],
)
def test_the_body(body: dict[str, object], seconds: float | None) -> None:
    assert wait({}, body) == seconds


TWO_LIMITS = {"x-ratelimit-reset-a": "1h", "x-ratelimit-reset-b": "2s"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset-tokens": "17ms"}, 0.017),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset": "1800000030"}, 30.0),
        ({"x-ratelimit-reset": "1800000030000"}, 30.0),
        ({"x-ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-reset-after": "1.25"}, 1.25),
        ({"ratelimit-reset": "12"}, 12.0),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:40Z"}, 40.0),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T07:00:40Z"}, None),
        ({"anthropic-ratelimit-tokens-reset": "tomorrow"}, None),
        ({"x-other-reset": "12"}, None),
        # only the limit that is used up counts, and of several the latest; where none is named, the latest of all
        ({**TWO_LIMITS, "x-ratelimit-remaining-b": "0", "x-ratelimit-remaining-a": "5"}, 2.0),
        ({**TWO_LIMITS, "x-ratelimit-remaining-b": "0", "x-ratelimit-remaining-a": "0"}, 3600.0),
        (TWO_LIMITS, 3600.0),
    ],
)
def test_reset_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert wait(headers) == seconds


def test_reset_headers_say_nothing_about_other_errors() -> None:
    assert wait({"x-ratelimit-reset-requests": "6m0s"}, limit=False) is None
    assert wait({"retry-after": "6"}, limit=False) == 6.0


def test_the_sentence_of_gemini_is_the_last_word() -> None:
    assert wait({}, message="You exceeded your current quota.\nPlease retry in 44.09s.") == 44.09
    assert wait({}, message="Please retry in 900.2ms") == pytest.approx(0.9002)
    assert wait({}, message="they said 'Please retry in 5s'") is None
    assert wait({}, message="Please retry in 5s", limit=False) == 5.0


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please retry after 45 seconds.", 45.0),
        ("Rate limit exceeded. Please try again in 6m0s. Visit our page.", 360.0),
        ("Limit 200, Used 200. Please try again in 7m12.48s.", 432.48),
        ("Rate limit is exceeded. Try again in 26 seconds.", 26.0),
        ("Too many requests, retry after 900 ms", 0.9),
        ("Please try again in 20 milliseconds", 0.02),
        ("Overloaded; try again in 2 minutes", 120.0),
        ("Retry in 1 hour", 3600.0),
        ("Please retry your request after 3s", 3.0),
        ("Out of call volume quota. Please retry after 15 days.", 1_296_000.0),
        ("Try again in 1 day", 86_400.0),
        ("retry after 3 attempts", None),
        ("Please try again in 5", None),
        ("try again later", None),
        ("do not retry after 5 s: it was refused", None),
    ],
)
def test_sentence_gives_the_wait(message: str, seconds: float | None) -> None:
    assert wait({}, message=message, limit=False) == (None if seconds is None else pytest.approx(seconds))


def test_exceptions_own_wait_stands_between_header_and_body() -> None:
    body: dict[str, object] = {"error": {"details": [{"retryDelay": "26s"}]}}

    def asked(text: str, **headers: str) -> float | None:
        return server_wait_s(headers, body, "", asked=text, is_rate_limit=True, now=NOW)

    assert asked("30") == 30.0
    assert asked("-1") == asked("nan") == 26.0
    assert server_wait_s({"retry-after": "3"}, body, "", asked="30", is_rate_limit=True, now=NOW) == 3.0
    assert asked("Fri, 15 Jan 2027 08:01:30 GMT") == 90.0


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset"]), st.text() | st.floats().map(str)
    )
)
def test_no_header_breaks_it(headers: dict[str, str]) -> None:
    seconds = wait(headers)
    assert seconds is None or 0 <= seconds < float("inf")
