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
PROVIDER, GUEST = "helios", "selene"
_SHORT_MODEL = "model:large"
TRIPPED, TRIPPED_FOR_S = "sentiment", 240
SHED_FOR_S, SNOOZED_FOR_S = 120, 60
GIVEN_UP_S = 560.0
"""What could not be done by then is left."""
_CAUSE = "ledger.book"
Document = dict[str, Any]


class Desk(Protocol):
    """The console's API."""

    def get(self, path: str, **query: str) -> Document:
        """The answer to a question."""

    def post(self, path: str, **body: Any) -> bool:
        """Do it, or be refused; whether it was done."""


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
    person: str = ""
    """Somebody who may respond, to whom one question is given; nobody where there is none."""
    to_do: list[Chore] = field(default_factory=lambda: list(CHORES))

    def __post_init__(self) -> None:
        if self.person:
            self.to_do.append(Chore(75.0, assign("reversals", self.person)))

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


def each(queue: str, verb: str, reason: str, **words: Any) -> Callable[[Desk], bool]:
    """Do one act on every open question of a queue, with one request."""

    def act(desk: Desk) -> bool:
        numbers = [one["number"] for one in questions(desk, queue)]
        if numbers:
            desk.post("escalations", verb=verb, numbers=numbers, reason=reason, **words)
        return bool(numbers)

    return act


def assign(queue: str, person: str) -> Callable[[Desk], bool]:
    """Give the oldest question of a queue to a person."""

    def act(desk: Desk) -> bool:
        found = questions(desk, queue)[:1]
        for one in found:
            desk.post(f"escalations/{one['number']}/assign", to=person, reason="Only a person can call the bank.")
        return bool(found)

    return act


def snooze_unclassified(desk: Desk) -> bool:
    """Put the odd answer off for a minute: what it is called is proposed already."""
    found = questions(desk, "unclassified")[:1]
    why = "Its name is proposed; look again in a minute."
    for one in found:
        desk.post(f"escalations/{one['number']}/snooze", for_s=SNOOZED_FOR_S, reason=why)
    return bool(found)


def resolve_too_soon(desk: Desk) -> bool:
    """Resolve what was asked a moment ago, and not say why: the console refuses, and the question's story says so."""
    mine = questions(desk, "budgets", is_mine=True)[:1]
    for one in mine:
        if not desk.post(f"escalations/{one['number']}/resolve", reason=""):
            why = "Tried to resolve it, and was asked why: its cause is still active. Asking who keeps the archive."
            desk.post(f"escalations/{one['number']}/note", reason=why)
    return bool(mine)


def reopen(queue: str, reason: str) -> Callable[[Desk], bool]:
    """Open again what the operator has closed."""

    def act(desk: Desk) -> bool:
        found = desk.get("escalations", tab="resolved", queue=queue)["escalations"]
        closed = [one for one in found if one["service"] in SERVICES and one["resolved_by"] == OPERATOR][:1]
        for one in closed:
            desk.post(f"escalations/{one['number']}/reopen", reason=reason)
        return bool(closed)

    return act


def propose_name(desk: Desk) -> bool:
    """Turn the pattern of what nobody could name into a rule, as a proposal that somebody else has to approve."""
    found = desk.get("failures/unclassified")["causes"]
    waiting = [one for one in found if one["state"] == "waiting" and "crm.update" in one["operations"]][:1]
    why = "HX-41 is what helios says while one of its backends starts anew."
    for one in waiting:
        desk.post(f"failures/unclassified/{one['fingerprint']}/propose", category="server_error", reason=why)
    return bool(waiting)


def shed_background(desk: Desk) -> bool:
    """While helios is overloaded, what nobody waits for is left. It ends by itself."""
    here = desk.get("capacity/events")["environment"]
    why = "Helios is overloaded: what nobody waits for can wait."
    desk.post("shed", least="critical", expires_in_s=SHED_FOR_S, confirm=here, reason=why)
    return True


def take_back(kind: str, reason: str) -> Callable[[Desk], bool]:
    """Undo what the operator has said of capacity events: a `cut` or a `merge`."""

    def act(desk: Desk) -> bool:
        for event in desk.get("capacity/events")["events"]:
            for one in desk.get(f"capacity/events/{event['number']}")["arrangements"]:
                if (one["kind"], one["made_by"]) == (kind, OPERATOR):
                    desk.post(f"capacity/arrangements/{one['number']}/undo", reason=reason)
                    return True
        return False

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
        if _SHORT_MODEL not in event["operations"] or not overloads or "rate_limited" not in event["categories"]:
            continue
        at = min(one["first"] for one in overloads)
        why = "Until then it was our rate limit; from here on helios is overloaded."
        desk.post(f"capacity/events/{event['number']}/split", at=at, reason=why)
        return True
    return False


def merge_outages(desk: Desk) -> bool:
    """Two providers that fell together, because one has its machines from the other: no rule can know that."""
    newest = [max((one["number"] for one in outages(desk, provider)), default=0) for provider in (PROVIDER, GUEST)]
    if not all(newest):
        return False
    why = "One overload: selene's machines in eu-central-1 are helios's."
    desk.post("capacity/events/merge", numbers=newest, reason=why)
    return True


def outages(desk: Desk, provider: str = PROVIDER) -> list[Document]:
    """The outages of one of the demonstration's providers whose numbers are read, and that no person merged."""
    found = desk.get("capacity/events", provider=provider)["events"]
    return [one for one in found if one["categories"] and one["joined_by"] in (None, "rule")]


CHORES: tuple[Chore, ...] = (
    Chore(8.0, press_test_buttons),
    Chore(25.0, take("refunds", most=3)),
    Chore(40.0, answer("refunds", "approve", "The parcel came back.")),
    Chore(50.0, answer("refunds", "edit", "Only one of two was broken.", text="20 EUR, to the card that was charged")),
    Chore(60.0, answer("refunds", "reject", "It was used for a year.")),
    Chore(65.0, take("refunds")),  # and lets it lie: it asks again, and ends by its deadline
    Chore(70.0, take("budgets")),
    Chore(80.0, resolve_too_soon),
    Chore(85.0, resolve_cause),
    Chore(95.0, propose_name),
    Chore(100.0, answer("budgets", "resolve", "Half of the archive is gone for good: it goes out without.")),
    Chore(110.0, trip_optional),
    Chore(115.0, shed_background),
    Chore(120.0, take("policy_review")),
    Chore(130.0, merge_unclassified),
    Chore(140.0, answer("policy_review", "note", "Asked the lawyers: it quotes a customer by name.")),
    Chore(145.0, snooze_unclassified),
    Chore(150.0, take("quota")),
    Chore(160.0, split_overload),
    Chore(170.0, answer("policy_review", "reject", "It quotes a customer by name.")),
    Chore(180.0, answer("quota", "escalate", "Only billing can raise it.", to="billing")),
    Chore(190.0, take_back("cut", "Our rate limit was reached because helios was overloaded: one outage.")),
    Chore(200.0, merge_outages),
    Chore(210.0, reopen("budgets", "The other half of the archive has turned up.")),
    Chore(225.0, take_back("merge", "Selene says that its machines are its own: are they two?")),
    Chore(245.0, merge_outages),
    Chore(420.0, each("refunds", "approve", "The parcels came back.")),
)
"""The shift, in order. What nobody does here is left for whoever looks: most questions, and all that is grave."""
