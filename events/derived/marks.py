"""Which errors of a trace are failures, when its spans come in several requests and in any order. Pure.

An error climbs from a span to its parent, and each is sent in the request that is due when it ends. What has to be
remembered of a span to tell an error once is little: whose child it is, when it ended, whether it failed and with what.
All that is known of a trace decides, never the order in which it came: see `told`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from events.derived.readings import class_name_of


class Place(NamedTuple):
    """A span of a trace, both as lower-case hexadecimal."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Error:
    """An error that one span tells of; `uid` is that of the fact that it would be.

    `is_own`: the span ended with it; otherwise the span dealt with it and went on: it is an event of the span, or was
    logged in it.
    """

    uid: bytes
    error_type: str
    is_own: bool
    exception: str = ""
    """A digest of its type and message; empty where it has no message."""
    teller: str = ""
    """Who tells it: begins with `CALL` where that is a call, in which case it names the instrumentation alone."""
    at_ns: int = 0


CALL, LOGGED = "c", "log"
"""What a teller begins with that is a call, and the one of exceptions that were logged."""
_MOMENT_NS = 1_000_000_000
"""Equal exceptions of one trace that follow each other so closely may be one that several tell of."""
_HIGHEST = 32
"""How many parents up the call of a model or a tool is looked for."""


class Says(NamedTuple):
    """What a span says for what is below it; without an operation it is no call of a model or a tool."""

    operation: str = ""
    provider: str = ""
    model: str = ""
    tool: str = ""
    run: str = ""


@dataclass(slots=True)
class Mark:
    """What is remembered of one span. One that only its children told of so far has no `ended_ns`."""

    parent_id: str = ""
    ended_ns: int = 0
    is_failed: bool = False
    error_type: str = ""
    whole_ns: int = 0
    """When the last of its children ended that went well; 0: none is known."""
    errors: dict[bytes, Error] = field(default_factory=dict)
    went_well: bool = False
    """Whether the span came with them, and nothing went wrong in it: nobody will ask how its children ended."""
    logged: dict[bytes, bytes] = field(default_factory=dict)
    """Of each exception that was logged in it, by a key of its own, the uid of the error that it is."""
    says: Says | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether something went wrong in the span itself."""
        return self.is_failed or bool(self.errors)

    def link(self, parent_id: str, ended_ns: int) -> None:
        """Add whose child the span is and when it ended, where that is not known."""
        if not self.ended_ns:
            self.parent_id, self.ended_ns = parent_id, ended_ns

    def join(self, other: Self) -> None:
        """Add what another request says of the same span."""
        self.says = other.says or self.says
        if other.ended_ns and (other.is_failed or not self.is_failed):
            self.parent_id, self.ended_ns, self.is_failed = other.parent_id, other.ended_ns, other.is_failed
            self.error_type = other.error_type
        self.whole_ns = max(self.whole_ns, other.whole_ns)
        self.went_well = self.went_well or other.went_well
        self.logged |= other.logged
        for uid, error in other.errors.items():
            # What the span ended with may have been logged, too, under the same key.
            known = self.errors.get(uid)
            self.errors[uid] = known if known is not None and known.is_own else error


Marks = dict[Place, Mark]
Links = dict[Place, tuple[str, int]]
"""Of spans of which nothing else is to be remembered: their parents, and when they ended in nanoseconds."""


def joined(several: Iterable[Mapping[Place, Mark]]) -> Marks:
    """What several requests say, put together."""
    found: Marks = {}
    for marks in several:
        for place, mark in marks.items():
            found.setdefault(place, Mark()).join(mark)
    return found


def told(marks: Mapping[Place, Mark]) -> set[bytes]:
    """The uids of the errors that are failures.

    A span whose last child failed only passes that error on. An error that a span dealt with was told by the child that
    failed with the same type of error, if there is one.
    """
    passing, types = _passing(marks)
    found = set()
    for place, mark in marks.items():
        below = types.get(place, set()) - {""}
        found |= {
            error.uid
            for error in mark.errors.values()
            if (place not in passing if error.is_own else class_name_of(error.error_type) not in below)
        }
    return found - _repeated(marks)


def _passing(marks: Mapping[Place, Mark]) -> tuple[dict[Place, Place], dict[Place, set[str]]]:
    """The spans that pass an error on, each with the child that it is of; and with which types the children failed."""
    failed_ns: dict[Place, tuple[int, Place]] = {}
    types: dict[Place, set[str]] = {}
    for place, mark in marks.items():
        if mark.is_failed and mark.parent_id and mark.parent_id != place.span_id:
            parent = Place(place.trace_id, mark.parent_id)
            failed_ns[parent] = max(failed_ns.get(parent, (0, parent)), (mark.ended_ns, place))
            types.setdefault(parent, set()).add(class_name_of(mark.error_type))
    passing = {
        place: failed_ns[place][1]
        for place, mark in marks.items()
        if place in failed_ns and failed_ns[place][0] >= mark.whole_ns
    }
    return passing, types


def _repeated(marks: Mapping[Place, Mark]) -> set[bytes]:
    """The uids of errors that another span tells of, too: a sibling, a parent above one that went well, or a second
    instrumentation of the same call.

    Of those who tell of one exception at one moment, one counts, and as often as it does: calls of one instrumentation
    that run beside each other and fail alike are as many failures.
    """
    by_exception: dict[str, list[Error]] = {}
    for mark in marks.values():
        of_span = {class_name_of(error.error_type) for error in mark.errors.values() if error.teller != LOGGED}
        for error in mark.errors.values():
            # A logged exception of a span that tells of such ones itself has a number among them already.
            is_numbered = error.teller == LOGGED and class_name_of(error.error_type) in of_span
            if error.exception and not is_numbered:
                by_exception.setdefault(error.exception, []).append(error)
    found: set[bytes] = set()
    for errors in by_exception.values():
        for together in _moments(errors):
            tellers = Counter(error.teller for error in together)
            counts = max(tellers, key=lambda teller: (tellers[teller], teller[:1] == CALL, teller))
            found |= {error.uid for error in together if error.teller != counts}
    return found


def _moments(errors: Iterable[Error]) -> Iterator[list[Error]]:
    """The errors in groups of which each follows the one before it closely."""
    group: list[Error] = []
    for error in sorted(errors, key=lambda one: (one.at_ns, one.uid)):
        if group and error.at_ns - group[-1].at_ns > _MOMENT_NS:
            yield group
            group = []
        group.append(error)
    if group:
        yield group


def passed_through(marks: Mapping[Place, Mark]) -> dict[Place, list[Place]]:
    """For each span whose own error is a failure, the spans that pass it on, the nearest first."""
    passing, _ = _passing(marks)
    found: dict[Place, list[Place]] = {}
    for place in passing:
        at, way = place, list[Place]()
        while at in passing and len(way) < _HIGHEST:
            way.append(at)
            at = passing[at]
        found.setdefault(at, []).append(place)
        found[at].sort(key=lambda one: marks[one].ended_ns)
    return found


def said_above(marks: Mapping[Place, Mark], place: Place) -> Says:
    """What the nearest spans say, from this one upwards: the call, its provider and model, and the run."""
    call, run = Says(), ""
    for at in upwards(marks, place):
        says = marks[at].says
        if says is None:
            continue
        run = run or says.run
        if says.operation and not call.operation:
            call = says
        elif says.operation and not call.tool and not says.tool:
            call = call._replace(provider=call.provider or says.provider, model=call.model or says.model)
    return call._replace(run=run)


def upwards(marks: Mapping[Place, Mark], place: Place) -> Iterator[Place]:
    """This span and those around it that are remembered, the nearest first."""
    at = place
    for _ in range(_HIGHEST):
        mark = marks.get(at)
        if mark is None:
            return
        yield at
        if not mark.parent_id or mark.parent_id == at.span_id:
            return
        at = Place(at.trace_id, mark.parent_id)
