"""The questions asked of the audit log: which entries, by whom, about what, when, with what outcome.

Pages, files and the API ask these and no others. A page looks at so many entries and no more: a condition that few of
them meet would else read the whole log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import BooleanField, Case, Q, QuerySet, Value, When

from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS

READ = 2_000
"""So many entries are looked through for one page; older ones are behind the next."""
ASKS = {
    "who": "only of this user, key or system task",
    "kind": "only of this kind of actor: user, key or system",
    "did": "only this verb, as breaker.trip, or this group, as breaker",
    "object": "only with this text in the object",
    "outcome": f"{AuditEntry.OK} or {AuditEntry.REFUSED}",
    "override": "yes: only overrides; no: all others",
    "q": "only with this text in the reason or rejection",
}
"""What a list of entries may be narrowed by, and what that means."""


OVERRIDE_VERBS = (
    *("breaker.trip", "breaker.disable", "breaker.observe", "breaker.release", "breaker.extend", "breaker.expire"),
    *("load.shed", "load.pass", "load.extend", "load.expire"),
)
"""What makes, changes or ends what an operator imposes; shed load goes by the same rules."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that is asked for: its name in the address, what was said, and the entries that meet it."""

    name: str
    value: str
    met_by: Q


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One of the entries that were looked at. `lacks` names the conditions that it does not meet."""

    number: int
    at: datetime
    actor_name: str
    actor_kind: str
    verb: str
    is_refusal: bool
    lacks: tuple[str, ...]

    @property
    def is_wanted(self) -> bool:
        """Whether it is one of those that are asked for."""
        return not self.lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The newest entries in a span, newest first. `rest_before`: older ones begin below it; None at the end."""

    seen: Sequence[Seen]
    rest_before: int | None

    @property
    def wanted(self) -> list[Seen]:
        """Those of them that are asked for."""
        return [one for one in self.seen if one.is_wanted]

    def without(self, name: str) -> int:
        """How many would be wanted if one condition were let go."""
        return sum(set(one.lacks) <= {name} for one in self.seen)


def conditions_in(given: Mapping[str, str]) -> list[Condition]:
    """What an address asks for, in the order of `ASKS`; what is empty or too long to be met asks for nothing."""
    said = {name: given.get(name, "").strip()[:NAME_CHARS] for name in ASKS}
    imposes = Q(verb__in=OVERRIDE_VERBS)
    met_by = {
        "override": ~imposes if said["override"] == "no" else imposes,
        "who": Q(actor_name=said["who"]),
        "kind": Q(actor_kind=said["kind"]),
        "did": Q(verb=said["did"]) | Q(verb__startswith=f"{said['did']}."),
        "object": Q(object__icontains=said["object"]) | Q(operation__icontains=said["object"]),
        "outcome": Q(result=said["outcome"]),
        "q": Q(reason__icontains=said["q"]) | Q(code__icontains=said["q"]),
    }
    return [Condition(name, value, met_by[name]) for name, value in said.items() if value and value.isprintable()]


def entries_of(
    environment: str, *, start: datetime | None = None, end: datetime | None = None, before: int | None = None
) -> QuerySet[AuditEntry]:
    """The entries of an environment in [start, end) below a number, in no order. Index `audit_by_time` for a span."""
    found = AuditEntry.objects.filter(environment=environment)
    if start is not None:
        found = found.filter(at__gte=start)
    if end is not None:
        found = found.filter(at__lt=end)
    return found if before is None else found.filter(number__lt=before)


def matching(found: QuerySet[AuditEntry], conditions: Sequence[Condition]) -> QuerySet[AuditEntry]:
    """Those that meet every condition."""
    for condition in conditions:
        found = found.filter(condition.met_by)
    return found


def look(found: QuerySet[AuditEntry], conditions: Sequence[Condition], *, is_span: bool) -> Looked:
    """The newest `READ` entries, each with what it lacks. One query; a span is walked by its moments."""
    columns = ("number", "at", "actor_name", "actor_kind", "verb", "result")
    meets = {
        f"meets_{one.name}": Case(When(one.met_by, then=Value(True)), default=False, output_field=BooleanField())
        for one in conditions
    }
    ordered = found.order_by("-at", "-number") if is_span else found.order_by("-number")
    names = [one.name for one in conditions]
    seen = [
        Seen(
            number=number,
            at=at,
            actor_name=actor_name,
            actor_kind=actor_kind,
            verb=verb,
            is_refusal=result == AuditEntry.REFUSED,
            lacks=tuple(name for name, is_met in zip(names, met, strict=True) if not is_met),
        )
        for number, at, actor_name, actor_kind, verb, result, *met in ordered.annotate(**meets).values_list(
            *columns, *meets
        )[:READ]
    ]
    # Two that were written at once may have their moments the other way round; their numbers are their order.
    seen.sort(key=lambda one: -one.number)
    return Looked(seen=seen, rest_before=seen[-1].number if len(seen) == READ else None)
