"""Which errors of a trace are failures, when its spans come in several requests and in any order. Pure.

An error climbs from a span to its parent, and each is sent in the request that is due when it ends. What has to be
remembered of a span to tell an error once is little: whose child it is, when it ended, whether it failed and with what.
All that is known of a trace decides, never the order in which it came: see `told`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    @property
    def is_trouble(self) -> bool:
        """Whether something went wrong in the span itself."""
        return self.is_failed or bool(self.errors)

    def join(self, other: Self) -> None:
        """Add what another request says of the same span."""
        if other.ended_ns:
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
    failed_ns: dict[Place, int] = {}
    types: dict[Place, set[str]] = {}
    for place, mark in marks.items():
        if mark.is_failed and mark.parent_id and mark.parent_id != place.span_id:
            parent = Place(place.trace_id, mark.parent_id)
            failed_ns[parent] = max(failed_ns.get(parent, 0), mark.ended_ns)
            types.setdefault(parent, set()).add(class_name_of(mark.error_type))
    found = set()
    for place, mark in marks.items():
        passes_on = place in failed_ns and failed_ns[place] >= mark.whole_ns
        below = types.get(place, set()) - {""}
        found |= {
            error.uid
            for error in mark.errors.values()
            if (not passes_on if error.is_own else class_name_of(error.error_type) not in below)
        }
    return found
