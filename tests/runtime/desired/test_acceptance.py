from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.events import DesiredStateApplied, DesiredStateRejected, Event
from recovery_ops.runtime.config.receiver import ConfigReceiver
from recovery_ops.runtime.config.server_clock import ServerClock
from recovery_ops.runtime.testing import PushedClock
from tests.support.acceptance import NOW, document, trip


class Agent:
    """Obeys, and notes what it was told to obey and what it told."""

    def __init__(self, store: Path | None = None) -> None:
        self.clock = PushedClock(wall=NOW)
        self.server_clock = ServerClock(self.clock)
        self.obeyed: list[Desired] = []
        self.told: list[Event] = []
        self.clamps: Sequence[str] = ()
        self.trouble: Exception | None = None
        self.acceptance = ConfigReceiver(
            on_desired=self._obey, emit=self.told.append, store=store, server_clock=self.server_clock
        )

    def _obey(self, desired: Desired) -> Sequence[str]:
        if self.trouble is not None:
            raise self.trouble
        self.obeyed.append(desired)
        return self.clamps

    def hear(self, given: object) -> bool:
        return self.acceptance.consider(given if isinstance(given, str) else json.dumps(given))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path / "state" / "desired.json")


def test_a_document_is_obeyed_and_told_with_what_was_clamped(agent: Agent) -> None:
    agent.clamps = ("max_retries", "expires_at")
    assert agent.hear(given := document(5, overrides=[trip()]))
    assert [one.revision for one in agent.obeyed] == [5]
    assert agent.obeyed[0].overrides == (trip(),)
    assert agent.told == [
        DesiredStateApplied(revision=5, config_hash=given["config_hash"], clamped=("max_retries", "expires_at"))
    ]
    assert (agent.acceptance.revision, agent.acceptance.config_hash) == (5, given["config_hash"])


def test_the_same_again_is_no_news(agent: Agent) -> None:
    for _ in range(3):
        agent.hear(document(5))
    assert len(agent.obeyed) == len(agent.told) == 1


def test_the_same_revision_with_another_content_is_news(agent: Agent) -> None:
    agent.hear(document(5))
    agent.hear(document(5, overrides=[trip()]))
    assert len(agent.obeyed) == len(agent.told) == 2


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_revisions_never_go_back_unless_the_server_insists(revisions: list[int]) -> None:
    agent = Agent()
    for before, revision in zip([None, *revisions], revisions, strict=False):
        standing = agent.acceptance.revision
        is_believed = agent.hear(document(revision))
        assert is_believed or revision < standing
        if agent.acceptance.revision < standing:
            assert revision == before == agent.acceptance.revision
    assert len({*map(id, agent.obeyed)}) == len(agent.told)


def test_a_counter_that_began_anew_is_believed_at_the_second_word(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    agent.hear(document(57))
    assert agent.hear(document(3)) is False
    assert agent.acceptance.revision == 57
    assert agent.hear(document(3)) is True
    assert agent.acceptance.revision == 3
    assert "anew" in caplog.text
    assert agent.hear(document(4))
    assert agent.acceptance.revision == 4


def test_a_replica_that_lags_is_not_believed(agent: Agent) -> None:
    agent.hear(document(57))
    for lower in (55, 57, 55, 56, 55):
        agent.hear(document(lower))
    assert agent.acceptance.revision == 57


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "garbage",
    [
        "", "not json", "null", "[]", "7", '"text"', "{}", DEEP, '{"revision": 6}', '{"a": NaN}',
        json.dumps({"schema_version": 1, "revision": -1}),
        json.dumps({"schema_version": 1, "revision": "6"}),
        json.dumps({"schema_version": 1, "revision": 6, "requires": ["telepathy"]}),
        json.dumps({"schema_version": 1, "revision": 6, "policy": []}),
        json.dumps({"schema_version": 1, "revision": 6, "policy": {"rules": [{"settings": {"max_retries": 10**9}}]}}),
        json.dumps({"schema_version": 1, "revision": 6, "overrides": [{"mode": "on fire"}]}),
        json.dumps({"schema_version": 1, "revision": 6, "overrides": {"a": 1}}),
        '{"schema_version": 1, "revision": ' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_what_is_no_desired_state_changes_nothing_and_is_told_once(agent: Agent, garbage: str) -> None:
    agent.hear(document(5))
    assert agent.hear(garbage)
    assert agent.hear(garbage)
    assert agent.acceptance.revision == 5
    assert len(agent.obeyed) == 1
    (rejection,) = agent.told[1:]
    assert isinstance(rejection, DesiredStateRejected)
    assert rejection.kept_revision == 5
    assert rejection.reason


def test_a_document_that_cannot_be_applied_leaves_the_old_state_and_can_be_tried_again(agent: Agent) -> None:
    agent.hear(document(5))
    agent.trouble = RuntimeError("no such operation")
    agent.hear(refused := document(6))
    assert agent.acceptance.revision == 5
    assert agent.told[-1] == DesiredStateRejected(
        revision=6, config_hash=refused["config_hash"], reason="RuntimeError: no such operation", kept_revision=5
    )
    agent.trouble = None
    agent.hear(document(6))
    assert agent.acceptance.revision == 6


def test_the_last_known_document_is_obeyed_after_a_restart(agent: Agent, tmp_path: Path) -> None:
    agent.hear(given := document(5, overrides=[trip()]))
    again = Agent(tmp_path / "state" / "desired.json")
    again.acceptance.restore()
    assert again.obeyed == agent.obeyed
    assert again.told == [DesiredStateApplied(revision=5, config_hash=given["config_hash"])]
    again.hear(document(5, overrides=[trip()]))
    assert len(again.obeyed) == 1


def test_a_refused_document_is_not_saved(agent: Agent, tmp_path: Path) -> None:
    agent.hear(document(5))
    agent.trouble = RuntimeError("no")
    agent.hear(document(6))
    again = Agent(tmp_path / "state" / "desired.json")
    again.acceptance.restore()
    assert again.acceptance.revision == 5


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b'{"document": {}}', b"\xff\xfe", b"x" * 9_000_000])
def test_a_damaged_file_is_as_none(content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "desired.json").write_bytes(content)
    agent = Agent(tmp_path / "desired.json")
    agent.acceptance.restore()
    assert (agent.obeyed, agent.acceptance.revision) == ([], 0)
    assert len(caplog.records) == 1
    agent.hear(document(1))
    again = Agent(tmp_path / "desired.json")
    again.acceptance.restore()
    assert again.acceptance.revision == 1


def test_a_file_that_cannot_be_written_is_said_once_and_nothing_else_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    agent = Agent(tmp_path / "file" / "desired.json")
    agent.hear(document(1))
    agent.hear(document(2))
    assert agent.acceptance.revision == 2
    assert len(caplog.records) == 1


@pytest.mark.parametrize("offset_s", [-7200.0, -30.0, -2.5, 2.5, 30.0, 7200.0])
def test_overrides_end_when_they_were_meant_to_whatever_this_machines_clock_says(agent: Agent, offset_s: float) -> None:
    server_now = NOW + offset_s
    agent.server_clock.note_date(server_now - 0.5, took_s=0.0)
    agent.hear(document(5, overrides=[trip(server_now, server_now + 60)], issued_at=server_now))
    (override,) = agent.obeyed[0].overrides
    assert abs(override.starts_at - NOW) < 1
    assert abs(override.expires_at - (NOW + 60)) < 1


@pytest.mark.parametrize("offset_s", [-7200.0, 7200.0])
def test_pause_beside_another_clock_ends_as_meant(agent: Agent, offset_s: float) -> None:
    server_now = NOW + offset_s
    agent.server_clock.note_date(server_now - 0.5, took_s=0.0)
    stop = {"id": "p1", "service": "research", "expires_at": server_now + 60, "kind": "stop"}
    pauses = [stop, {"id": "p2", "service": "research"}]
    agent.hear(document(5, issued_at=server_now) | {"pauses": pauses})
    ends, lasts = agent.obeyed[0].pauses
    assert (ends.is_stop, lasts.is_stop) == (True, False)
    assert ends.expires_at is not None
    assert abs(ends.expires_at - (NOW + 60)) < 1
    assert lasts.expires_at is None


def test_a_small_difference_of_the_clocks_is_left_alone(agent: Agent) -> None:
    agent.server_clock.note_date(NOW + 1.2, took_s=0.0)
    agent.hear(document(5, overrides=[trip()]))
    assert agent.obeyed[0].overrides == (trip(),)


class SteppedClock(PushedClock):
    """A pushed clock whose wall time can be set, as an administrator or NTP does."""

    step_s = 0.0

    def wall(self) -> float:
        return super().wall() + self.step_s


def test_when_this_machines_clock_is_set_the_overrides_are_converted_anew_and_nothing_is_told_twice() -> None:
    agent = Agent()
    agent.clock = clock = SteppedClock(wall=NOW)
    agent.server_clock = ServerClock(clock)
    agent.acceptance = ConfigReceiver(
        on_desired=agent._obey, emit=agent.told.append, store=None, server_clock=agent.server_clock
    )
    agent.server_clock.note_date(NOW, took_s=0.0)
    agent.hear(document(5, overrides=[trip()]))
    clock.step_s = 600.0
    agent.acceptance.keep_time()
    agent.acceptance.keep_time()
    assert [round(one.overrides[0].expires_at - NOW) for one in agent.obeyed] == [3600, 4200]
    assert len(agent.told) == 1


def test_the_difference_of_the_clocks_outlives_a_restart(agent: Agent, tmp_path: Path) -> None:
    agent.server_clock.note_date(NOW + 1000 - 0.5, took_s=0.0)
    agent.hear(document(5, overrides=[trip(NOW + 1000, NOW + 1060)]))
    again = Agent(tmp_path / "state" / "desired.json")
    again.acceptance.restore()
    assert abs(again.obeyed[0].overrides[0].expires_at - (NOW + 60)) < 1


def test_a_server_cannot_be_behind_what_it_has_written(agent: Agent) -> None:
    agent.hear(document(1, issued_at=NOW + 500))
    assert abs(agent.server_clock.offset_s - 500) < 1
    agent.hear(document(2, issued_at=NOW - 5000))
    assert abs(agent.server_clock.offset_s - 500) < 1


def test_an_answer_that_took_long_says_nothing_about_the_time(agent: Agent) -> None:
    agent.server_clock.note_date(NOW + 500, took_s=3.0)
    assert agent.server_clock.offset_s == 0.0


def test_half_of_an_answers_time_is_its_way_back(agent: Agent) -> None:
    agent.server_clock.note_date(NOW + 500, took_s=2.0)
    assert abs(agent.server_clock.offset_s - 501.5) < 0.001


def test_same_rejection_after_an_applied_document_is_reported_again(agent: Agent) -> None:
    for one in ("not json", "not json", document(6), "not json"):
        agent.hear(one)
    assert [type(one) for one in agent.told] == [DesiredStateRejected, DesiredStateApplied, DesiredStateRejected]
