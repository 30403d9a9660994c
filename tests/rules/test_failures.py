"""What a failure says beside its category: connection, proof, advice, message, fingerprint, and the words for users."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import FAMILY_OF, Category, Evidence, Family, Verdict
from tests.support.evidence import NOW, chained, of, typed

C, E = Category, Evidence

RESET_BY_AIOHTTP = {"types": chained("aiohttp:ClientOSError aiohttp:ClientConnectionError"), "errno": errno.ECONNRESET}

LOST: list[tuple[dict[str, object], bool]] = [
    ({"types": typed("http.client.RemoteDisconnected", "ConnectionResetError")}, True),
    ({"types": typed("BrokenPipeError", "ConnectionError")}, True),
    ({"types": chained("openai.APIConnectionError", "httpx.ReadError")}, True),
    (RESET_BY_AIOHTTP, True),
    ({"message": "Server disconnected"}, True),
    ({"types": typed("httpx.ConnectError")}, False),
    ({"types": typed("httpx.ReadTimeout")}, False),
    ({"message": "connection refused"}, False),
    ({"status_code": 500, "errno": None}, False),
]


@pytest.mark.parametrize(("parts", "is_lost"), LOST)
def test_a_lost_connection_is_not_reused(parts: dict[str, object], is_lost: bool) -> None:
    assert of(**parts).connection_was_lost is is_lost


NOTHING_DONE: list[tuple[dict[str, object], bool]] = [
    ({"status_code": 401}, True),
    ({"status_code": 429}, True),
    ({"status_code": 503}, False),
    ({"status_code": 503, "headers": {"retry-after": "1"}}, False),
    ({"status_code": 503, "message": "upstream connect error or disconnect/reset before headers"}, False),
    ({"status_code": 503, "message": "The server is overloaded"}, False),
    ({"status_code": 503, "code": "serviceunavailable"}, False),
    ({"status_code": 503, "code": "overloaded_error"}, True),
    ({"status_code": 503, "code": "slowdown"}, True),
    ({"status_code": 503, "kind": "overloaded"}, True),
    ({"status_code": 529}, True),
    ({"status_code": 400}, False),
    ({"status_code": 400, "code": "expiredtoken"}, True),
    ({"status_code": 400, "code": "context_length_exceeded"}, True),
    ({"code": "context_length_exceeded"}, False),
    ({"status_code": 412}, True),
    ({"kind": "stale_evidence"}, True),
    ({"message": "stale evidence: the page has changed"}, False),
    ({"status_code": 408}, False),
    ({"status_code": 409}, False),
    ({"status_code": 500}, False),
    ({"status_code": 500, "code": "expiredtoken"}, False),
    ({"status_code": 502}, False),
    ({"status_code": 504}, False),
    ({"types": typed("ConnectionRefusedError", "ConnectionError", "OSError")}, True),
    ({"types": typed("socket.gaierror", "OSError")}, True),
    ({"types": chained("openai.APIConnectionError", "httpx.ConnectError")}, True),
    ({"types": chained("requests:ConnectionError", "urllib3:MaxRetryError", "urllib3:NewConnectionError")}, True),
    ({"types": typed("httpx.ConnectTimeout", "httpx.TimeoutException")}, True),
    ({"types": typed("httpx.PoolTimeout", "httpx.TimeoutException")}, True),
    ({"types": typed("aiohttp.client_exceptions.ConnectionTimeoutError")}, True),
    ({"types": typed("botocore.exceptions.ConnectTimeoutError")}, True),
    ({"types": typed("sqlalchemy.exc.TimeoutError")}, True),
    ({"types": typed("ssl.SSLCertVerificationError", "ssl.SSLError", "OSError")}, True),
    (
        {"types": typed("ssl.SSLError", "OSError"), "message": "[SSL: WRONG_VERSION_NUMBER] wrong version (_ssl.c:1)"},
        True,
    ),
    (
        {"types": typed("ssl.SSLError", "OSError"), "message": "[SSL: BAD_RECORD_MAC] bad record mac (_ssl.c:1)"},
        False,
    ),
    ({"types": typed("TimeoutError", "OSError"), "message": "_ssl.c:989: The handshake operation timed out"}, True),
    ({"types": typed("TimeoutError", "OSError"), "message": "The read operation timed out"}, False),
    (
        {
            "types": typed("httpx.RemoteProtocolError", "httpx.TransportError"),
            "message": "<StreamReset stream_id:1, error_code:7, remote_reset:True>",
        },
        True,
    ),
    (
        {
            "types": typed("httpx.RemoteProtocolError", "httpx.TransportError"),
            "message": "<StreamReset stream_id:1, error_code:2, remote_reset:True>",
        },
        False,
    ),
    ({"types": typed("ConnectionResetError", "ConnectionError", "OSError")}, False),
    ({"types": chained("httpx.RemoteProtocolError", "ConnectionRefusedError")}, False),
    ({"types": typed("httpx.ReadTimeout")}, False),
    ({"types": typed("botocore.exceptions.ReadTimeoutError", "botocore.exceptions.HTTPClientError")}, False),
    ({"types": chained("requests:ConnectionError", "urllib3:ReadTimeoutError urllib3:TimeoutError")}, False),
    ({"types": typed("aiohttp.client_exceptions.SocketTimeoutError", "TimeoutError", "OSError")}, False),
    ({"code": "rate_limit_error"}, False),
]


@pytest.mark.parametrize(("parts", "is_proven"), NOTHING_DONE)
def test_what_proves_that_nothing_was_done(parts: dict[str, object], is_proven: bool) -> None:
    assert of(**parts).nothing_was_done is is_proven


@pytest.mark.parametrize(
    ("headers", "advice"),
    [
        ({"x-should-retry": "true"}, True),
        ({"x-should-retry": " False "}, False),
        ({"x-should-retry": "maybe"}, None),
        ({"stripe-should-retry": "false"}, False),
        ({}, None),
    ],
)
def test_the_servers_advice(headers: dict[str, str], advice: bool | None) -> None:
    failure = of(status_code=500, headers=headers)
    assert failure.server_says_retry is advice
    assert failure.can_retry is (advice is not False)


def test_a_refusal_of_our_own_runtime_says_when_to_come_back() -> None:
    failure = of(types=typed("recovery_ops.runtime.errors.RetryAfterActive"), retry_at=NOW + 5)
    assert (failure.category, failure.retry_after_s) == (C.RATE_LIMITED, 5.0)


def every_failure() -> Iterator[Failure]:
    return (Failure(category, E.NONE) for category in Category)


def test_every_category_tells_the_user_in_plain_words() -> None:
    told = [failure.user_message for failure in every_failure()]
    assert len(set(told)) == len(Category)
    for failure in every_failure():
        words = f"{failure.user_message} {failure.suggestion}"
        assert failure.user_message.endswith(".")
        assert failure.suggestion.endswith(".")
        assert not any(part in words for part in ("HTTP", "API", "_", "token", "429", "null", "exception"))


def test_family_and_verdict_follow_the_category() -> None:
    for failure in every_failure():
        assert failure.family is FAMILY_OF[failure.category]
    assert Failure(C.PERMISSION, E.HTTP_STATUS).verdict is Verdict.POLICY_DENIED
    assert Failure(C.RATE_LIMITED, E.HTTP_STATUS).verdict is Verdict.TRANSIENT_TIMEOUT
    assert Failure(C.AUTH, E.HTTP_STATUS).verdict is None


def test_an_unknown_error_is_a_server_error_that_nothing_proves() -> None:
    failure = of(message="odd")
    assert (failure.verdict, failure.evidence, failure.family) == (Verdict.SERVER_ERROR_5XX, E.NONE, Family.UNKNOWN)
    assert not failure.can_retry


def test_the_fingerprint_groups_what_differs_in_names_and_numbers_alone() -> None:
    one = of(status_code=500, message="user 17 not saved in /var/db/a1.sqlite: row 'Ann' (req_8f2)")
    other = of(status_code=500, message="user 4711 not saved in /srv/db/b2.sqlite: row 'Bob' (req_11c)")
    third = of(status_code=500, message="user 17 not deleted in /var/db/a1.sqlite: row 'Ann' (req_8f2)")
    assert one.fingerprint == other.fingerprint != third.fingerprint
    assert one.fingerprint != of(status_code=502, message=one.message).fingerprint
    assert len(one.fingerprint) == 12


def test_the_developers_message_is_one_line_of_at_most_one_kilobyte() -> None:
    failure = of(message="first\nsecond \x1b[31mred\u202e " + "ü" * 5000)
    assert failure.message.startswith("first second [31mred ü")
    assert len(failure.message.encode()) <= 1024
    assert failure.message.endswith("…")


@pytest.mark.parametrize("request_id", ["sk-proj-abcdefghijkl", "a b", "x" * 129, "<script>", ""])
def test_a_request_id_that_is_none_is_dropped(request_id: str) -> None:
    assert of(status_code=500, request_id=request_id).request_id is None


def test_a_foreign_code_does_not_become_the_error_type() -> None:
    assert of(code="order_4711_failed", status_code=500).error_type == "500"
    assert of(code="insufficient_quota", status_code=429).error_type == "insufficient_quota"
    assert of(kind="evidence_stale").error_type == "evidence_stale"
    assert of().error_type == "_OTHER"


WORDS = st.sampled_from(
    [
        "error",
        "errors",
        "details",
        "message",
        "code",
        "type",
        "retryDelay",
        "resets_at",
        "violations",
        "quotaId",
        "n_ctx",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)
BODIES = st.dictionaries(WORDS | st.text(max_size=8), JSON, max_size=4)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "retry-after",
            "retry-after-ms",
            "x-should-retry",
            "x-ratelimit-reset-tokens",
            "anthropic-ratelimit-unified-status",
        ]
    ),
    st.text(max_size=40),
)


@given(
    code=st.none() | st.text(max_size=30),
    kind=st.none() | st.text(max_size=20),
    status=st.none() | st.integers(-5, 1200),
    headers=HEADERS,
    message=st.text(max_size=200),
    body=st.none() | BODIES,
    number=st.none() | st.integers(),
)
def test_every_signal_has_a_failure(
    code: str | None,
    kind: str | None,
    status: int | None,
    headers: dict[str, str],
    message: str,
    body: dict[str, object] | None,
    number: int | None,
) -> None:
    failure = of(code=code, kind=kind, status_code=status, headers=headers, message=message, body=body, errno=number)
    assert failure.retry_after_s is None or 0 <= failure.retry_after_s < float("inf")
    assert failure.overflow is None or failure.overflow.available_tokens >= 0
    assert failure.fingerprint
    assert (failure.evidence is E.NONE) == (failure.category is C.UNKNOWN)
