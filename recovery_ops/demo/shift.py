"""The first ten minutes of the demonstration's operator: what somebody on call does about what the agents go through.

Everything goes through the console's API, as a program of anybody's would. It is told the time, and touches only what
is the demonstration's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

OPERATOR = "demonstration operator"
"""The name of its key: how the audit log and every page call it."""
SERVICES = ("research-agent", "support-agent")
PROVIDER = "helios"
TRIPPED, TRIPPED_FOR_S = "sentiment", 240
GIVEN_UP_S = 560.0
"""What could not be done by then is left."""
_CAUSE = "ledger.book"
Document = dict[str, Any]


class Desk(Protocol):
    """The console's API."""

    def get(self, path: str, **query: str) -> Document:
        """The answer to a question."""

    def post(self, path: str, **body: Any) -> None:
        """Do it, or be refused."""


@dataclass(frozen=True, slots=True)
class Chore:
    """One thing to do, from so many seconds after the shift began until it was tried once. `act` says whether it was.

    What is refused is left: a refusal stands in the audit log, and a hundred of them would hide the rest.
    """

    after_s: float
    act: Callable[[Desk], bool]


@dataclass(slots=True)
class Shift:
    """Its chores, and which of them are still to be done."""

    desk: Desk
    to_do: list[Chore] = field(default_factory=lambda: list(CHORES))

    def look(self, elapsed_s: float) -> None:
        """Do what is due and can be done, each by itself; the rest is for the next look."""
        left = [one for one in self.to_do if not (one.after_s <= elapsed_s and one.act(self.desk))]
        self.to_do = left if elapsed_s < GIVEN_UP_S else []


def press_test_buttons(desk: Desk) -> bool:
    """Press the test button of every channel that is there."""
    channels = desk.get("notifications/channels")["channels"]
    for one in channels:
        desk.post(f"notifications/channels/{one['number']}/test", reason="The shift begins: does everything arrive?")
    return bool(channels)


def questions(desk: Desk, queue: str = "", *, is_mine: bool = False) -> Sequence[Document]:
    """The open questions of the demonstration's agents that nobody has, or that the operator has; oldest first."""
    found = desk.get("escalations", **({"queue": queue} if queue else {}))["escalations"]
    holder = OPERATOR if is_mine else ""
    return sorted(
        (one for one in found if one["service"] in SERVICES and one["acknowledged_by"] == holder),
        key=lambda one: int(one["number"]),
    )


def take(queue: str, *, most: int = 1) -> Callable[[Desk], bool]:
    """Take the oldest questions of a queue, all at once."""

    def act(desk: Desk) -> bool:
        numbers = [one["number"] for one in questions(desk, queue)][:most]
        if len(numbers) == most:
            desk.post("escalations", verb="acknowledge", numbers=numbers, reason="Looking at it.")
        return len(numbers) == most

    return act


def answer(queue: str, verb: str, reason: str, **words: Any) -> Callable[[Desk], bool]:
    """Do one act on the oldest question of a queue that the operator has taken."""

    def act(desk: Desk) -> bool:
        mine = questions(desk, queue, is_mine=True)[:1]
        for one in mine:
            desk.post(f"escalations/{one['number']}/{verb}", reason=reason, **words)
        return bool(mine)

    return act


def merge_unclassified(desk: Desk) -> bool:
    """Two operations that met the same odd answer are one question."""
    found = questions(desk, "unclassified")
    if len(found) < 2:
        return False
    into, other = found[0]["number"], found[1]["number"]
    desk.post(f"escalations/{other}/merge", into=into, reason="The same state of helios, HX-41.")
    return True


def trip_optional(desk: Desk) -> bool:
    """Let what nobody needs rest for some minutes: the override ends by itself, and somebody is told before."""
    why = "Optional, and helios has enough to do. Ends by itself."
    desk.post(f"breakers/{TRIPPED}/trip", expires_in_s=TRIPPED_FOR_S, reason=why)
    return True


def resolve_cause(desk: Desk) -> bool:
    """Call a cause resolved that is not: its next failure brings it back."""
    found = [one for one in desk.get("failures")["failures"] if _CAUSE in one["operations"]]
    why = "The batch job that wrote the same rows was stopped."
    names = [one["fingerprint"] for one in found[:1]]
    if names:
        desk.post("failures", verb="resolve", fingerprints=names, reason=why)
    return bool(names)


def split_overload(desk: Desk) -> bool:
    """Our rate limit and the provider's overload came within five minutes, and are two outages all the same."""
    for event in outages(desk):
        overloads = [
            one
            for one in desk.get("failures")["failures"]
            if one["category"] == "overloaded" and set(one["operations"]) & set(event["operations"])
        ]
        if not event["model"] or not overloads or "rate_limited" not in event["categories"]:
            continue
        at = min(one["first"] for one in overloads)
        why = "Until then it was our rate limit; from here on helios is overloaded."
        desk.post(f"capacity/events/{event['number']}/split", at=at, reason=why)
        return True
    return False


def merge_outages(desk: Desk) -> bool:
    """The overload of one provider is one outage, whatever of it failed."""
    overloaded = [one for one in outages(desk) if max(one["categories"], key=one["categories"].get) == "overloaded"]
    numbers = sorted(one["number"] for one in overloaded)[-2:]
    why = "One overload of helios: search and the large model fell together."
    if len(numbers) == 2:
        desk.post("capacity/events/merge", numbers=numbers, reason=why)
    return len(numbers) == 2


def outages(desk: Desk) -> list[Document]:
    """The outages of the demonstration's provider whose numbers are read, and that are no part of another."""
    found = desk.get("capacity/events")["events"]
    return [one for one in found if one["provider"] == PROVIDER and one["categories"] and not one["parts"]]


CHORES: tuple[Chore, ...] = (
    Chore(8.0, press_test_buttons),
    Chore(25.0, take("refunds", most=3)),
    Chore(40.0, answer("refunds", "approve", "The parcel came back.")),
    Chore(50.0, answer("refunds", "edit", "Only one of two was broken.", text="20 EUR, to the card that was charged")),
    Chore(60.0, answer("refunds", "reject", "It was used for a year.")),
    Chore(65.0, take("refunds")),  # and lets it lie: it asks again, and ends by its deadline
    Chore(70.0, take("budgets")),
    Chore(85.0, resolve_cause),
    Chore(100.0, answer("budgets", "resolve", "Half of the archive is gone for good: it goes out without.")),
    Chore(110.0, trip_optional),
    Chore(120.0, take("policy_review")),
    Chore(130.0, merge_unclassified),
    Chore(140.0, answer("policy_review", "note", "Asked the lawyers: it quotes a customer by name.")),
    Chore(150.0, take("quota")),
    Chore(160.0, split_overload),
    Chore(170.0, answer("policy_review", "reject", "It quotes a customer by name.")),
    Chore(180.0, answer("quota", "escalate", "Only billing can raise it.", to="billing")),
    Chore(200.0, merge_outages),
)
"""The shift, in order. What nobody does here is left for whoever looks: most questions, and all that is grave."""
