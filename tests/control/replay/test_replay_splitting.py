"""Deciding only what another policy may change, or in several processes, gives what deciding everything here gives."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

import pytest

from events.queries.recordings import Page, Part, Speaker, stored, unpacked
from recovery_ops.control.replay import affected_calls as splitting
from recovery_ops.control.replay import job
from recovery_ops.control.replay import processes as sharing
from recovery_ops.control.replay.comparison import Comparison
from recovery_ops.control.replay.engine import replay
from recovery_ops.control.replay.process_start import Documents
from recovery_ops.control.replay.processes import Deciders
from recovery_ops.control.replay.recorded_calls import Listener, Recording
from recovery_ops.rules.policy.model import Policy, parse_policy
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, call, policy

pytestmark = pytest.mark.django_db

OLD = parse_policy(BUILT_IN_DOCUMENT)
BAD = [503, 500, 529, 429, TimeoutError("slow"), 404, "ok", "ok"]


Told = tuple[Speaker, list[Page]]


def taped(seed: int) -> tuple[Told, float]:
    """An hour of four operations: one falls back on another, two share a breaker, one stands alone."""
    rng = random.Random(seed)
    studio = Studio(BUILT_IN_DOCUMENT)

    def outcomes() -> list[Any]:
        return [rng.choice(BAD) if rng.random() < 0.5 else "ok" for _ in range(300)]

    cache = studio.guard("cache", [])
    guards = [
        studio.guard("search_web", outcomes(), fallback=[cache]),
        studio.guard("crm.read", outcomes(), breaker="crm"),
        studio.guard("crm.write", outcomes(), breaker="crm"),
        studio.guard("fetch", outcomes(), optional=True),
    ]
    for _ in range(120):
        call(studio, rng.choice(guards), rng.choice(["main_agent", "nightly"]), pause_s=rng.random() * 3)
    studio.store()
    window = Part(
        environment="dev",
        start_us=int(studio.began_s * 1e6) - 1,
        end_us=int(studio.lab.clock.wall() * 1e6) + 1,
    )
    # Each is read before the next one is looked for.
    [told] = [(speaker, list(pages)) for speaker, pages in stored(window)]
    return told, studio.began_s


def recording(seed: int) -> Recording:
    (speaker, pages), began_s = taped(seed)
    heard = Listener(speaker, began_s).listen(fact for page in pages for fact in unpacked(page))
    assert {one.operation for one in heard.calls} == {"search_web", "crm.read", "crm.write", "fetch"}
    return heard


PROPOSED = {
    "nothing": parse_policy(BUILT_IN_DOCUMENT),
    "one that falls back": parse_policy(policy("search_web", max_retries=0)),
    "what is fallen back on": parse_policy(policy("cache", consecutive_failures=2)),
    "one of two that share": parse_policy(policy("crm.read", consecutive_failures=2, wait_duration_in_open_s=60)),
    "one that stands alone": parse_policy(policy("fetch", max_retries=0)),
    "everything": parse_policy(policy("*", max_retries=1, consecutive_failures=3)),
}


@pytest.mark.parametrize("seed", range(3))
def test_in_parts_is_as_in_whole(seed: int) -> None:
    recorded = recording(seed)
    for what, new in PROPOSED.items():
        whole = replay(recorded, OLD, OLD), replay(recorded, new, OLD)
        parts = splitting.replay_both(recorded, OLD, new)
        assert [asdict(one) for one in parts] == [asdict(one) for one in whole], what


@pytest.mark.parametrize(
    ("what", "twice"),
    [
        ("nothing", set()),
        ("one that stands alone", {"fetch"}),
        ("one of two that share", {"crm.read", "crm.write"}),
        ("what is fallen back on", {"search_web"}),
        ("everything", {"search_web", "crm.read", "crm.write", "fetch"}),
    ],
)
def test_only_what_may_change_is_decided_twice(what: str, twice: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    under_new: set[str] = set()
    new = PROPOSED[what]

    def counted(recorded: Recording, ruled: Policy, base: Policy) -> Any:
        if ruled is new:
            under_new.update(one.operation for one in recorded.calls)
        return replay(recorded, ruled, base)

    monkeypatch.setattr(splitting, "replay", counted)
    splitting.replay_both(recording(1), OLD, new)
    assert under_new == twice


def test_two_processes_find_what_one_finds_and_say_how_far_they_are() -> None:
    told, began = zip(*(taped(seed) for seed in range(3)), strict=True)
    new = policy("*", max_retries=1, consecutive_failures=3)
    under = Documents(old=BUILT_IN_DOCUMENT, new=new, old_version="built-in", start_s=min(began))
    documents: list[dict[str, Any]] = []
    heard: list[tuple[int, int]] = []
    for processes in (0, 2):
        with Deciders(under, processes=processes, meanwhile=lambda *far: heard.append(far)) as deciders:
            for speaker, pages in told:
                deciders.decide(speaker, pages)
            documents.append(deciders.found().as_document())
    assert documents[0]["affected_calls"] > 10
    assert documents[1] == documents[0]
    assert heard[0][0] == 0 < heard[0][1]  # read, and not decided yet
    assert all(done <= read for done, read in heard)
    alone = [far for far in heard if far[0]]
    assert max(alone) == (documents[0]["facts"], documents[0]["facts"])


def test_who_calls_it_off_is_heard_while_a_large_instance_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LOOK_S", 0.01)  # far less than a process takes to begin
    (speaker, pages), began_s = taped(1)
    under = Documents(old=BUILT_IN_DOCUMENT, new=policy("*", max_retries=1), old_version="built-in", start_s=began_s)
    looks = []

    def meanwhile(done_facts: int, read_facts: int) -> None:
        looks.append(done_facts)
        if len(looks) > len(pages):  # all is read, and what was read is being decided
            raise job.CancelAsked

    def decided() -> Comparison:
        with Deciders(under, processes=1, meanwhile=meanwhile) as deciders:
            deciders.decide(speaker, pages)
            return deciders.found()

    with pytest.raises(job.CancelAsked):
        decided()
    assert set(looks) == {0}
