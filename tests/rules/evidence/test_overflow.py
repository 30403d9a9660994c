"""Counts are read exactly or not at all; a prompt that quotes a vendor's sentence is no overflow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Signal, classify
from recovery_ops.rules.classification.context_overflow import Overflow, counts_in, overflow_of, states_overflow
from recovery_ops.rules.enums import Category

SENTENCE = "prompt is too long: 208310 tokens > 200000 maximum"
COUNTS = Overflow(208310, 200000, 0)

WRAPPED = [
    SENTENCE,
    f"Error code: 400 - {{'type': 'error', 'error': {{'type': 'invalid_request_error', 'message': '{SENTENCE}'}}}}",
    f'400 {{"type":"error","error":{{"type":"invalid_request_error","message":"{SENTENCE}"}}}}',
    f'litellm.BadRequestError: AnthropicException - b\'{{"type":"error","error":{{"message":"{SENTENCE}"}}}}\'',
    f"litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicError - {SENTENCE}",
    f"An error occurred (ValidationException) when calling the InvokeModel operation: {SENTENCE}",
    f"An error occurred (X) when calling the Converse operation (reached max retries: 4): {SENTENCE}",
    f"ModelErrorException: The model returned the following errors: {SENTENCE}",
    f"ValidationException: {SENTENCE}",
    SENTENCE.replace("208310", "208,310").replace("200000", "200,000"),
    SENTENCE.upper().replace("TOKENS", "tokens"),
]

NEAR_MISSES = [
    "Too many tokens, please wait before trying again.",
    "This request would exceed your organization's rate limit of 30,000 input tokens per minute",
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 34102.",
    f"Invalid user message: '{SENTENCE}'",
    f"I got this from a model: {SENTENCE}",
    "prompt is too long for this field",
    "prompt is too long: many tokens > few maximum",
    "prompt is too long: 99999999999999 tokens > 3 maximum",
    "The decoder prompt (length many) is longer than the maximum model length of 32768",
    "max_tokens is too large: 32768. This model supports at most 16384 completion tokens",
    "The maximum tokens you requested exceeds the model limit of 32768",
    "expected a string with maximum length 1000",
    "Your input was fine",
    "",
]


@pytest.mark.parametrize("message", WRAPPED)
def test_the_sentence_is_found_under_what_clients_and_gateways_put_around_it(message: str) -> None:
    assert states_overflow(message)
    assert counts_in(message, None) == COUNTS


@pytest.mark.parametrize("message", NEAR_MISSES)
def test_a_near_miss_is_no_overflow(message: str) -> None:
    assert not states_overflow(message)
    assert counts_in(message, None) is None


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"n_prompt_tokens": 13392, "n_ctx": 8192}},
        {"error": {"details": {"input_tokens": 13392, "limit_tokens": 8192}}},
        {"input_tokens": 13392, "context_window": 8192},
    ],
)
def test_fields_beat_the_sentence(body: dict[str, object]) -> None:
    assert counts_in(SENTENCE, body) == Overflow(13392, 8192, 0)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"error": None},
        {"error": {"n_prompt_tokens": "13392", "n_ctx": 8192}},
        {"error": {"n_prompt_tokens": True, "n_ctx": 8192}},
        {"error": {"n_prompt_tokens": -1, "n_ctx": 8192}},
        {"error": {"n_prompt_tokens": 13392}},
    ],
)
def test_fields_that_are_no_counts_are_not_read(body: dict[str, object] | None) -> None:
    assert counts_in(SENTENCE, body) == COUNTS


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_what_is_left_is_never_negative(asked: int, limit: int) -> None:
    overflow = overflow_of(asked, limit)
    assert overflow.available_tokens == max(0, limit - asked)


@given(st.text(max_size=500))
def test_any_text_can_be_looked_at(text: str) -> None:
    counts = counts_in(text, None)
    assert counts is None or states_overflow(text)


@pytest.mark.parametrize("status", [400, 413, 429])
@pytest.mark.parametrize(
    "message",
    [
        "Too many tokens, please wait before trying again.",
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute (org: 1b2c).",
        "This request would exceed the rate limit for your organization of 8,000 input tokens per minute.",
    ],
)
def test_a_rate_limit_of_tokens_is_no_overflow_whatever_its_status(status: int, message: str) -> None:
    failure = classify(Signal(status_code=status, message=message), now=0.0)
    assert (failure.category, failure.overflow) == (Category.RATE_LIMITED, None)


def test_a_prompt_that_speaks_of_rate_limits_is_no_rate_limit() -> None:
    echoed = "Invalid value: 'Too many tokens, please wait before trying again'"
    assert classify(Signal(status_code=400, message=echoed), now=0.0).category is Category.INVALID_REQUEST
