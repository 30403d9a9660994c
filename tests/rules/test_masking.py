"""No secret survives masking, whatever stands around it; harmless text stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.redaction import MASK, masked, printable
from tests.support.masking import SECRETS

HARMLESS = [
    "",
    "Connection refused",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "max_tokens=500, input_tokens: 17",
    "Bearer authentication failed",
    "Basic authentication is required",
    "Unexpected token < in JSON at position 0",
    "KeyError: 'monkey'",
    "password authentication failed for user ann",
    "see https://docs.test/a/b#c",
    "run ssh-keygen first",
    "the request req_011CVQe1dLrGNMJyE1ghG1av failed",
    "größer als 5 – 日本語 ✓",
]


@pytest.mark.parametrize(("secret", "text"), SECRETS.items())
def test_a_secret_is_masked(secret: str, text: str) -> None:
    assert secret in text
    assert secret not in masked(text)
    assert MASK in masked(text)


@given(
    secret=st.sampled_from(sorted(SECRETS)),
    before=st.text(st.characters(exclude_categories=["L", "N"]), max_size=20)
    | st.sampled_from(["in ", "x: ", "('", '{"a": "']),
    after=st.sampled_from(["", " ", "\n", "'", '"', ", next", ")", "; then", "\\n"]),
)
def test_a_secret_is_masked_in_any_surroundings(secret: str, before: str, after: str) -> None:
    assert secret not in masked(f"{before}\n{SECRETS[secret]}{after}")


@pytest.mark.parametrize(
    "secret", ["sk-proj-canary_0123456789", "AKIACANARY0123456789", "AIzaSyCanary0123456789canary"]
)
@pytest.mark.parametrize("invisible", ["\u200b", "\u202e", "\x00", "\x1b", "\ud800", "\u2066"])
def test_invisible_characters_hide_no_secret(secret: str, invisible: str) -> None:
    torn = secret[:6] + invisible + secret[6:]
    assert secret[8:] not in masked(f"key {torn} leaked")


@pytest.mark.parametrize("before", ["Cookie: a=", "password=", "secret: ", "Authorization: Digest username="])
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("chars", [100, 511, 513, 5000])
def test_a_long_secret_in_quotes_is_masked_to_its_end(before: str, quote: str, chars: int) -> None:
    if quote == "'" and "=" in before and not before.startswith("p"):
        quote = '"'  # what stands in single quotes in a header is a piece of somebody's source: its value ends there
    for end in (quote, "", f"{quote}\nHost: x"):
        assert "canary" not in masked(f"{before}{quote}canary {'x' * chars} canary{end}")


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays(text: str) -> None:
    assert masked(text) == text


@given(st.text(max_size=300))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert masked(masked(text)) == masked(text)


@given(st.text(st.characters(), max_size=400), st.integers(1, 60))
def test_printable_text_is_one_visible_line(text: str, limit: int) -> None:
    line = printable(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    line.encode()  # no lone surrogate is left
    assert not any(mark in line for mark in "\x00\x1b\u200f\u202e\u2066\u2028")


def test_printable_cuts_with_an_ellipsis() -> None:
    assert printable("one two three", 8) == "one two…"
    assert printable("one\ttwo\r\n three", 99) == "one two  three"
    assert printable("short", 5) == "short"
