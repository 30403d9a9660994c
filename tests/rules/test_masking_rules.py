"""Masking rules of an environment: what they hide, what they never do, and what a document may not say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.redaction import MASK, masked
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.events import FailureClassified, Record
from recovery_ops.rules.policy.masking_rules import NOTHING_MORE, Masking, masking_document, parse_masking
from recovery_ops.rules.policy.model import BUILT_IN, PolicyInvalid, document_of, parse_policy
from recovery_ops.rules.policy.settings import Problem
from recovery_ops.wire import encode, names
from recovery_ops.wire.events import WireEvent
from recovery_ops.wire.masking import fault_of_hidden, masked_event

CUSTOMER = {"name": "customer", "pattern": r"CUST-\d{10}", "replacement": "[customer]"}
CARD = {"name": "card", "pattern": r"\d{4} \d{4} \d{4} \d{4}"}
SECRET = "CUST-0123456789"


def section(*rules: dict[str, Any], attributes: tuple[str, ...] = ()) -> Masking:
    problems: list[Problem] = []
    found = parse_masking({"rules": list(rules), "attributes": list(attributes)}, "masking", problems)
    assert problems == []
    return found


def test_what_a_rule_finds_is_replaced() -> None:
    rules = section(CUSTOMER, CARD)
    assert rules.masked(f"{SECRET} paid with 1234 5678 1234 5678") == f"[customer] paid with {MASK}"
    assert rules.masked("nothing here") == "nothing here"
    assert NOTHING_MORE.masked(SECRET) == SECRET


@pytest.mark.parametrize("invisible", ["\u200b", "\u202e", "\x00", "\x1b", "\ud800", "\u2066"])
def test_invisible_characters_hide_nothing_from_a_rule(invisible: str) -> None:
    assert section(CUSTOMER).masked(f"x {SECRET[:7]}{invisible}{SECRET[7:]} y") == "x [customer] y"


@pytest.mark.parametrize("kept", range(1, len(SECRET)))
def test_what_a_cut_left_of_a_secret_is_hidden_too(kept: int) -> None:
    told = section(CUSTOMER).masked(f"{'before ' * 5}{SECRET[:kept]}…")
    assert told.startswith("before before")
    assert told.endswith(f"{MASK}…")
    assert SECRET[: max(2, kept)] not in told
    assert section(CUSTOMER).masked(told) == told


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_secret_is_hidden_in_any_surroundings(before: str, after: str) -> None:
    rules = section(CUSTOMER, CARD)
    assert SECRET not in rules.masked(f"{before}{SECRET}{after}")
    assert SECRET.encode() not in rules.blotted(f"{before}{SECRET}{after}".encode(errors="surrogatepass"))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_blotting_keeps_the_length(before: bytes, after: bytes) -> None:
    rules = section({**CUSTOMER, "pattern": r"\bCUST-\d{10}\b"})
    blotted = rules.blotted(before + SECRET.encode() + after)
    assert len(blotted) == len(before) + len(SECRET) + len(after)
    assert SECRET.encode() not in blotted


@given(st.text(max_size=80))
def test_rules_only_add_to_what_is_hidden_anyway(text: str) -> None:
    """Whatever they say, a secret that the built-in patterns know is hidden before they look."""
    sly = section({"name": "sly", "pattern": r"[Aa]uthorization|password|key|bearer"})
    told = sly.masked(masked(f"{text} Authorization: Bearer abcdefgh12345678 password=hunter2hunter2"))
    assert "abcdefgh12345678" not in told
    assert "hunter2hunter2" not in told


def test_our_own_words_are_no_secrets() -> None:
    greedy = section({"name": "all", "pattern": r"[a-z_]{3,60}", "replacement": "[x]"})
    assert [greedy.masked(one.value) for one in Category] == [one.value for one in Category]
    assert greedy.masked("server_error of anna") == "[x] of [x]"


def test_a_facts_texts_are_masked_and_what_it_is_counted_by_is_not() -> None:
    fact = FailureClassified(
        operation=f"pay {SECRET}",
        category=Category.SERVER_ERROR,
        evidence=Evidence.HTTP_STATUS,
        retryable=True,
        attempt=1,
        message=f"no account {SECRET}",
    )
    event = encode(Record(event=fact, uid=SECRET, sequence_number=7, at_ns=1, run=SECRET))
    found = masked_event(
        event, section(CUSTOMER, attributes=(names.ATTRIBUTES["message"], names.ATTRIBUTES["category"]))
    )
    assert found.attributes[names.OPERATION] == "pay [customer]"
    assert found.attributes[names.RUN] == "[customer]"
    assert found.attributes[names.ATTRIBUTES["message"]] == MASK
    assert found.attributes[names.ATTRIBUTES["category"]] == "server_error"
    assert found.attributes[names.UID] == SECRET
    assert SECRET not in found.body
    assert masked_event(event, NOTHING_MORE) is event


def test_hidden_attribute_is_masked_at_every_depth() -> None:
    hidden, shown = {"customer.email": "ana@example.org"}, {"customer.plan": "gold"}
    nested = {"one": hidden | shown, "several": [hidden, [shown | hidden]]}
    given = hidden | {"order": nested}
    event = WireEvent(event_name="recovery.run_started", severity=9, at_ns=1, attributes=given, body="")
    found = masked_event(event, section(attributes=("customer.email",))).attributes
    masked = {"customer.email": MASK}
    assert found == masked | {"order": {"one": masked | shown, "several": [masked, [shown | masked]]}}


def test_what_facts_are_folded_by_cannot_be_hidden_whole() -> None:
    for name in (names.RUN, names.UID, names.SERVICE_NAME, names.ATTRIBUTES["breaker"], "Recovery.Failure.Category"):
        assert "counted and folded" in fault_of_hidden(name)
    for name in (names.ATTRIBUTES["message"], "customer.email", "http.url"):
        assert fault_of_hidden(name) == ""


def test_a_document_says_it_and_is_read_back() -> None:
    said = {"rules": [CUSTOMER, CARD], "attributes": ["customer.email"]}
    policy = parse_policy({"masking": said})
    assert masking_document(policy.masking) == {**said, "rules": [CUSTOMER, {**CARD, "replacement": MASK}]}
    assert parse_policy(document_of(policy)) == policy
    assert "masking" not in document_of(BUILT_IN), "what agents are told of the built-in policy stays as it was"


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ([], "masking"),
        ({"rule": []}, "masking.rule"),
        ({"rules": {}}, "masking.rules"),
        ({"rules": [CUSTOMER] * 51}, "masking.rules"),
        ({"rules": ["x"]}, "masking.rules[0]"),
        ({"rules": [{**CUSTOMER, "flags": "i"}]}, "masking.rules[0].flags"),
        ({"rules": [{**CUSTOMER, "name": ""}]}, "masking.rules[0].name"),
        ({"rules": [{"name": "a"}]}, "masking.rules[0].pattern"),
        ({"rules": [{**CUSTOMER, "pattern": "(a+)+"}]}, "masking.rules[0].pattern"),
        ({"rules": [{**CUSTOMER, "replacement": ""}]}, "masking.rules[0].replacement"),
        ({"rules": [{**CUSTOMER, "replacement": "\u202e"}]}, "masking.rules[0].replacement"),
        ({"rules": [{**CUSTOMER, "replacement": "CUST-0000000000"}]}, "masking.rules[0].replacement"),
        ({"rules": [CUSTOMER, CUSTOMER]}, "masking.rules[1].name"),
        ({"attributes": "a"}, "masking.attributes"),
        ({"attributes": [1]}, "masking.attributes[0]"),
        ({"attributes": ["a" * 129]}, "masking.attributes[0]"),
    ],
)
def test_what_a_document_may_not_say(said: object, path: str) -> None:
    with pytest.raises(PolicyInvalid) as invalid:
        parse_policy({"masking": said})
    assert path in [problem.path for problem in invalid.value.problems]
