"""Which pause of new work an instance obeys, and until when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.desired_state import PAUSE, STOP, Desired, Pause

SERVICES, INSTANCES = ("research", "billing"), ("r-0", "r-1")


def pause(service: str = "research", instance: str = "", **more: float | str | None) -> Pause:
    return Pause(id="pz-1", service=service, instance=instance, **more)  # type: ignore[arg-type]  # each fits its field


@pytest.mark.parametrize(
    ("held", "who", "at", "is_paused"),
    [
        (pause(), ("research", "r-0"), 0.0, True),
        (pause(), ("billing", "r-0"), 0.0, False),
        (pause(instance="r-0"), ("research", "r-0"), 0.0, True),
        (pause(instance="r-0"), ("research", "r-1"), 0.0, False),
        (pause(instance="r-0"), ("billing", "r-0"), 0.0, False),
        (pause(service="rese*"), ("research", "r-0"), 0.0, False),
        (pause(instance="*"), ("research", "r-0"), 0.0, False),
        (pause(expires_at=10.0), ("research", "r-0"), 9.9, True),
        (pause(expires_at=10.0), ("research", "r-0"), 10.0, False),
    ],
)
def test_who_is_paused_when(held: Pause, who: tuple[str, str], at: float, is_paused: bool) -> None:
    found = Desired(pauses=(held,)).pause_of(at, service=who[0], instance=who[1])
    assert (found is held) is is_paused


def test_of_several_the_one_that_holds_longest_is_told() -> None:
    short, long = pause(expires_at=10.0, revision=9), pause(instance="r-0", expires_at=20.0)
    for_ever = pause(revision=2)
    assert Desired(pauses=(short, long)).pause_of(0.0, service="research", instance="r-0") is long
    assert Desired(pauses=(long, for_ever, short)).pause_of(0.0, service="research", instance="r-0") is for_ever


@pytest.mark.parametrize(
    ("held", "at", "kind"),
    [
        ((pause(), pause(expires_at=10.0, kind=STOP)), 9.9, STOP),
        ((pause(expires_at=10.0, kind=STOP), pause(instance="r-0", expires_at=90.0)), 9.9, STOP),
        ((pause(instance="r-0", kind=STOP), pause(expires_at=90.0)), 9.9, STOP),
        ((pause(), pause(expires_at=10.0, kind=STOP)), 10.0, PAUSE),
        ((pause(expires_at=5.0, kind=STOP), pause(instance="r-0", expires_at=10.0, kind=STOP)), 7.0, STOP),
        ((pause(instance="r-1", kind=STOP), pause()), 9.9, PAUSE),
        ((pause(expires_at=10.0, kind=STOP),), 10.0, None),
    ],
)
def test_stop_wins_over_pauses_until_its_end(held: tuple[Pause, ...], at: float, kind: str | None) -> None:
    found = Desired(pauses=held).pause_of(at, service="research", instance="r-0")
    assert (found and found.kind) == kind
    assert (found is not None and found.is_stop) is (kind == STOP)


PAUSES = st.lists(
    st.builds(
        Pause,
        id=st.sampled_from(["pz-1", "pz-2"]),
        service=st.sampled_from(SERVICES),
        instance=st.sampled_from(("", *INSTANCES)),
        expires_at=st.none() | st.floats(0, 100),
        revision=st.integers(0, 3),
        kind=st.sampled_from([PAUSE, STOP]),
    ),
    max_size=5,
)


@given(pauses=PAUSES, now=st.floats(0, 100), later=st.floats(0, 100), data=st.data())
def test_time_only_ends_them_and_their_order_says_nothing(
    pauses: list[Pause], now: float, later: float, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(pauses))
    for service in SERVICES:
        for instance in INSTANCES:
            held = Desired(pauses=tuple(pauses)).pause_of(now, service=service, instance=instance)
            again = Desired(pauses=tuple(shuffled)).pause_of(now, service=service, instance=instance)
            assert (held is None) == (again is None)
            assert held is None or again is None or held.expires_at == again.expires_at
            if held is None:
                assert Desired(pauses=tuple(pauses)).pause_of(now + later, service=service, instance=instance) is None
            else:
                assert held.service == service
                assert held.instance in ("", instance)
