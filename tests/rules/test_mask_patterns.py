"""Patterns of masking rules: what they find, which are refused, and that none is slow for a text that is an attack."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.policy.masking_patterns import LONGEST_DECIDED, PatternRefused, mask_pattern

FINDS = [
    (r"CUST-\d{10}", "of CUST-0123456789.", "CUST-0123456789"),
    (r"\bPAT-[A-Z]{2}\d{4,8}\b", "x PAT-AB123456 y", "PAT-AB123456"),
    (r"(cust|card)-\d+", "a card-123456789012345678901234567890", "card-123456789012345678901234567890"),
    (r"(?:AB-)?\d{4}", "AB-1234", "AB-1234"),
    (r"\d{3}-\d{2}-\d{4}|[A-Z]{2}\d{6}", "or QQ123456", "QQ123456"),
    (r"a\.b\\c\-d", r"a.b\c-d", r"a.b\c-d"),
    (r"Müller-\d+", "Müller-17", "Müller-17"),
    (r"<<[^>]{1,40}>>", "<<what ever>>", "<<what ever>>"),
    (r"[\w.]{2,30}@acme", "ann.b@acme", "ann.b@acme"),
]
CATASTROPHIC = [
    *("(a+)+b", "(a*)*", "(a|aa)+", "(a|a)*b", r"(\w+\s?)*x", r"([a-z]+)*@", "(.*)*", "((ab)+)+c", "(a?){20}b"),
    *(r"\d+\d+\d+x", ".*.*.*x", r"\w*\w*\w*!", r"a{1,60}a{1,60}a{1,9}b", "x+x+y", r"(\d{1,3}\.){3}x", r"\d+\b"),
    "(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)!",
]
NO_PATTERN = [
    *("", "(", ")", "[", "a]", "a{", "a}", "*a", "a**", "a{2}{2}", "a{3,2}abc", "a{0}abc", "a{1,999}", "a{,3}bcd", "|"),
    *("abc|", "(|abc)def", "^abc", "abc$", r"\1abc", r"(?P<x>abc)", "(?i)abc", "(?=abc)", "(?<!a)bcd", "(?#x)abc"),
    *(r"\x41bc", r"\Aabc", r"abc\Z", r"\p{L}abc", "[]abc", "[^]", "[z-a]bc", "[[a]bc", r"[\x41]bc", "a\nb", "a" * 201),
    *("ab", "a?b?c?d?", r"\d", r"\b\b", "abc\\", "[a&&b]cd", "(((((abc)))))", "(abc"),
]


@pytest.mark.parametrize(("pattern", "text", "found"), FINDS)
def test_a_pattern_finds_what_it_says(pattern: str, text: str, found: str) -> None:
    match = mask_pattern(pattern).strict.search(text)
    assert match is not None
    assert match[0] == found
    plain = re.search(pattern, text)
    assert plain is not None
    assert plain[0] == found, "as anybody who knows regular expressions would expect"


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_what_may_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused) as refused:
        mask_pattern(pattern)
    assert re.match("has |repeats |needs |can match ", str(refused.value)), refused.value


@pytest.mark.parametrize("pattern", NO_PATTERN)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused):
        mask_pattern(pattern)


_SIGNS = st.sampled_from([*"ab1-.()[]|?*+{}^$\\,", r"\d", r"\w", r"\b", "[a-z]", "{2}", "{1,3}", "(a|b)", "(?:ab)"])


@given(st.lists(_SIGNS, min_size=1, max_size=14).map("".join))
def test_any_text_is_a_pattern_within_its_bounds_or_refused(text: str) -> None:
    try:
        pattern = mask_pattern(text)
    except PatternRefused:
        return
    assert pattern.decided <= LONGEST_DECIDED
    assert "+" not in text or ")+" not in text
    assert pattern.strict.search("") is None
    # What it finds a plain engine finds as well: nothing is hidden that the pattern does not say.
    for match in pattern.strict.finditer("aab1-ab.11ba a-b\\1a,ab" * 3):
        assert re.match(text, match.string[match.start() :]) is not None


EXPENSIVE = [
    *(
        r"(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)!",
        r"[ab]{2,110}!",
        r"\w\w\w\w\w\w\w\w\w\w!",
        r"(aaaa|aaab)(aaaa|aaab)(aaaa|aaab)!",
    ),
    *(r"[^!]{100,120}!", r"aaaaaaaa\d+", r"[a-z]{3}\d+"),
]


@pytest.mark.parametrize("pattern", EXPENSIVE)
def test_twice_the_text_costs_twice_the_time(pattern: str) -> None:
    """By CPU time, of texts made to be tried at every place; one that backtracks takes four times or never ends."""
    found = mask_pattern(pattern).strict

    def cost_s(size: int) -> float:
        text = "a" * size
        began = time.process_time()
        for _ in range(8):
            found.search(text)
        return time.process_time() - began

    once = min(cost_s(8_000) for _ in range(3))
    twice = min(cost_s(16_000) for _ in range(3))
    assert twice < 3 * once + 0.01
    assert once < 8 * 8_000 * mask_pattern(pattern).cost * 1e-7, "at most 0.1 µs for each look"


def test_a_random_text_is_found_wherever_it_stands() -> None:
    chance = random.Random(7)
    pattern = mask_pattern(r"TOK_[0-9a-f]{16}")
    for _ in range(200):
        token = f"TOK_{chance.getrandbits(64):016x}"
        before, after = (("" if chance.random() < 0.3 else chance.choice([" ", "(", "=", "TOK_", "ä"])) for _ in "ab")
        assert pattern.strict.sub("", f"{before}{token}{after}") == f"{before}{after}"
