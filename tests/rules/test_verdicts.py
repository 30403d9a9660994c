"""The playbook: what each verdict is answered with, and which documents are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import VERDICT_OF, Category, Compensation, Evidence, Verdict
from recovery_ops.rules.playbook.verdicts import (
    BUILT_IN_PLAYBOOK,
    MAY_ANSWER,
    UNPROVEN,
    Play,
    Playbook,
    parse_playbook,
    playbook_document,
)
from recovery_ops.rules.policy.settings import Problem

C = Compensation


def problems_of(document: object) -> list[Problem]:
    found: list[Problem] = []
    parse_playbook(document, "playbook", found)
    return found


def document_with(**entries: Any) -> dict[str, Any]:
    return playbook_document(BUILT_IN_PLAYBOOK) | entries


@pytest.mark.parametrize(
    ("verdict", "play"),
    [
        (
            Verdict.TRANSIENT_TIMEOUT,
            Play(compensation=C.RETRY_WITH_BACKOFF, delays_s=(0.2, 0.6, 1.8)),
        ),
        (Verdict.SERVER_ERROR_5XX, Play(compensation=C.RETRY_WITH_BACKOFF, delays_s=(0.5, 2.0))),
        (Verdict.IDEMPOTENCY_CONFLICT, Play(compensation=C.DEPRECATE_TOOL_CALL)),
        (Verdict.EVIDENCE_STALE, Play(compensation=C.REFRESH_EVIDENCE)),
        (Verdict.POLICY_DENIED, Play(compensation=C.ESCALATE_TO_HUMAN, queue="policy_review")),
        (Verdict.SCHEMA_MISMATCH, Play(compensation=C.DEPRECATE_TOOL_CALL, queue="adapter_owner")),
    ],
)
def test_the_built_in_playbook_is_the_table_of_the_rules(verdict: Verdict, play: Play) -> None:
    assert BUILT_IN_PLAYBOOK.plays[verdict] == play


@pytest.mark.parametrize("category", list(Category))
def test_every_category_comes_to_the_play_of_its_verdict(category: Category) -> None:
    play = BUILT_IN_PLAYBOOK.play_for(Failure(category, Evidence.EXCEPTION_TYPE))
    if category is Category.UNKNOWN:
        assert play == UNPROVEN
    elif category in VERDICT_OF:
        assert play == BUILT_IN_PLAYBOOK.plays[VERDICT_OF[category]]
    else:
        assert play is None


@pytest.mark.parametrize("category", [Category.UNKNOWN, Category.SERVER_ERROR, Category.TIMEOUT])
def test_without_evidence_a_person_is_asked_whatever_the_document_says(category: Category) -> None:
    play = BUILT_IN_PLAYBOOK.play_for(Failure(category, Evidence.NONE))
    assert play == Play(compensation=C.ESCALATE_TO_HUMAN, queue="unclassified")


def test_no_verdict_is_reversed_by_default() -> None:
    assert all(play.compensation is not C.ISSUE_REVERSAL for play in BUILT_IN_PLAYBOOK.plays.values())


def test_no_document_means_the_built_in_playbook() -> None:
    assert parse_playbook(None, "playbook", []) is BUILT_IN_PLAYBOOK


@pytest.mark.parametrize(
    ("document", "path", "says"),
    [
        ([], "playbook", "object"),
        (document_with(context_overflow={"compensation": "deprecate_tool_call"}), "context_overflow", "no verdict"),
        (document_with(transient_timeout=None), "transient_timeout", "object"),
        (document_with(transient_timeout={}), "transient_timeout.compensation", "retry_with_backoff"),
        (document_with(transient_timeout={"compensation": "pray"}), "transient_timeout.compensation", "one of"),
        (document_with(transient_timeout={"compensation": "retry_with_backoff"}), "transient_timeout.delays_s", "list"),
        (
            document_with(transient_timeout={"compensation": "retry_with_backoff", "delays_s": []}),
            "transient_timeout.delays_s",
            "1 to 20",
        ),
        (
            document_with(transient_timeout={"compensation": "retry_with_backoff", "delays_s": [0.1, -1]}),
            "transient_timeout.delays_s[1]",
            "from 0 to 3600 s",
        ),
        (
            document_with(transient_timeout={"compensation": "retry_with_backoff", "delays_s": [float("nan")]}),
            "transient_timeout.delays_s[0]",
            "number",
        ),
        (
            document_with(idempotency_conflict={"compensation": "retry_with_backoff", "delays_s": [1]}),
            "idempotency_conflict.compensation",
            "deprecate_tool_call",
        ),
        (
            document_with(policy_denied={"compensation": "deprecate_tool_call"}),
            "policy_denied.compensation",
            "escalate_to_human",
        ),
        (document_with(policy_denied={"compensation": "escalate_to_human"}), "policy_denied.queue", "queue"),
        (
            document_with(schema_mismatch={"compensation": "deprecate_tool_call", "queue": 7}),
            "schema_mismatch.queue",
            "name",
        ),
    ],
)
def test_a_document_with_a_fault_is_refused_with_its_place(document: object, path: str, says: str) -> None:
    (problem,) = problems_of(document)
    assert problem.path.endswith(path)
    assert says in problem.message


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_without_an_entry_is_refused(verdict: Verdict) -> None:
    document = document_with()
    del document[verdict.value]
    assert [problem.path for problem in problems_of(document)] == [f"playbook.{verdict.value}"]


def plays(verdict: Verdict) -> st.SearchStrategy[Play]:
    """Every play that may answer a verdict."""
    name = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)

    def play(compensation: Compensation) -> st.SearchStrategy[Play]:
        delays = st.lists(st.floats(0, 3600), min_size=1, max_size=20).map(tuple)
        is_retry = compensation is C.RETRY_WITH_BACKOFF
        queue = name if compensation is C.ESCALATE_TO_HUMAN else st.just("") | name
        return st.builds(
            Play,
            compensation=st.just(compensation),
            delays_s=delays if is_retry else st.just(()),
            queue=queue,
        )

    return st.sampled_from(sorted(MAY_ANSWER[verdict])).flatmap(play)


playbooks = st.fixed_dictionaries({verdict: plays(verdict) for verdict in Verdict}).map(Playbook)


@given(playbooks)
def test_what_is_written_is_read_back(playbook: Playbook) -> None:
    problems: list[Problem] = []
    assert parse_playbook(playbook_document(playbook), "playbook", problems) == playbook
    assert problems == []


@given(playbooks)
def test_no_document_retries_what_was_denied_done_or_unproven(playbook: Playbook) -> None:
    again = {C.RETRY_WITH_BACKOFF, C.REFRESH_EVIDENCE}
    for verdict in (Verdict.POLICY_DENIED, Verdict.IDEMPOTENCY_CONFLICT, Verdict.SCHEMA_MISMATCH):
        assert playbook.plays[verdict].compensation not in again
    unknown = playbook.play_for(Failure(Category.UNKNOWN, Evidence.NONE))
    assert unknown is not None
    assert unknown.compensation is C.ESCALATE_TO_HUMAN
