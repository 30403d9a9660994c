"""From an entry of the audit log to the form that takes back what it tells, while that still holds.

Nothing is done here: each way leads to the form of another act, which says what it will do and asks for a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse

from events.capacity.models import CapacityArrangement
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.issues.models import FailureCase, FailureGrouping
from recovery_ops.rules.enums import State

_IMPOSED = ("breaker.trip", "breaker.disable", "breaker.observe", "breaker.extend")
_POLICY = ("policy.edit", "policy.release", "policy.roll_back")
_AWAY = ("failure.archive", "failure.resolve")
_GROUPED = ("failure.merge", "failure.split")
_ARRANGED = ("capacity.merge", "capacity.split", "capacity.apart")
_ACT_OF_MODE = {State.FORCED_OPEN: "trip", State.DISABLED: "disable", State.METRICS_ONLY: "observe"}
_PERMISSION = {
    **dict.fromkeys(_IMPOSED, "release"),
    **dict.fromkeys(_POLICY, "roll_back_policy"),
    **dict.fromkeys((*_AWAY, "escalation.resolve"), "respond"),
    **dict.fromkeys((*_GROUPED, *_ARRANGED), "arrange"),
    "load.shed": "shed",
    "load.extend": "shed",
}


@dataclass(frozen=True, slots=True)
class WayBack:
    """What it is called, and the form."""

    words: str
    href: str


class WaysBack:
    """The ways back from these entries, for whoever `may` go them: `may` holds permissions by name. At most five
    queries, each only where an entry of its kind is among them."""

    def __init__(self, entries: Iterable[AuditEntry], standing: Standing, may: Mapping[str, bool]) -> None:
        self._standing, self._may = standing, may
        self._now_s = standing.now.timestamp()
        done = [entry for entry in entries if not entry.is_refusal]
        self._resolved = self._ids_of(
            [_id_of(one) for one in done if one.verb == "escalation.resolve"],
            lambda ids: Escalation.objects.filter(
                environment=standing.environment, pk__in=ids, merged_into=None
            ).exclude(resolved_at=None),
        )
        self._away = self._causes_away([one.object for one in done if one.verb in _AWAY])
        self._groupings = self._made(FailureGrouping, [one.at for one in done if one.verb in _GROUPED])
        self._arrangements = self._made(CapacityArrangement, [one.at for one in done if one.verb in _ARRANGED])

    def of(self, entry: AuditEntry) -> WayBack | None:
        """The way back from one entry; None where there is none, any more, or for this person."""
        if entry.is_refusal:
            return None
        if entry.verb == "breaker.release":
            return self._again(entry)
        permission = _PERMISSION.get(entry.verb)
        return self._found(entry) if permission is not None and self._may.get(permission) else None

    def _found(self, entry: AuditEntry) -> WayBack | None:
        after: Mapping[str, Any] = entry.after or {}
        if entry.verb in _IMPOSED:
            return self._release(entry, str(after.get("id", "")))
        if entry.verb in _POLICY:
            return self._roll_back(entry, after)
        if entry.verb.startswith("load."):
            sheds = self._standing.snapshot.sheds
            is_held = any(one.id == after.get("id") and one.expires_at > self._now_s for one in sheds)
            return WayBack("Stop shedding…", reverse("shed")) if is_held else None
        if entry.verb == "escalation.resolve":
            number = _id_of(entry)
            is_closed = number in self._resolved
            return WayBack("Reopen…", f"{reverse('respond', args=['reopen'])}?number={number}") if is_closed else None
        if entry.verb in _AWAY:
            is_away = entry.object in self._away
            return _asking("Reopen…", reverse("triage", args=["reopen"]), fingerprint=entry.object, if_=is_away)
        if entry.verb in _GROUPED:
            made = self._groupings.get(entry.at)
            return _asking("Unmerge…", reverse("triage", args=["undo"]), grouping=made, if_=made is not None)
        made = self._arrangements.get(entry.at)
        return _asking("Undo…", reverse("capacity-arrange", args=["undo"]), arrangement=made, if_=made is not None)

    def _release(self, entry: AuditEntry, override: str) -> WayBack | None:
        live = {one.id for one in self._standing.snapshot.overrides if one.expires_at > self._now_s}
        address = reverse("breaker-release", args=[entry.operation])
        return _asking("Clear override…", address, override=override, if_=override in live)

    def _again(self, entry: AuditEntry) -> WayBack | None:
        """What was let go is imposed again, unless something is imposed there now."""
        before: Mapping[str, Any] = entry.before or {}
        act = _ACT_OF_MODE.get(before.get("mode", ""), "")
        is_ruled = any(one.scope.operation == entry.operation for one in self._standing.snapshot.overrides)
        if not act or is_ruled or not self._may.get(act):
            return None
        return WayBack(f"{act.capitalize()} again…", reverse(f"breaker-{act}", args=[entry.operation]))

    def _roll_back(self, entry: AuditEntry, after: Mapping[str, Any]) -> WayBack | None:
        version = str((entry.before or {}).get("version", ""))
        number = 0 if version == "built-in" else parse_number(version)
        if number is None or str(after.get("version", "")) != self._standing.snapshot.policy.version:
            return None  # something else is live since: going back would take that back, too
        return WayBack(f"Roll back to {version}…", reverse("release", args=[number]))

    def _causes_away(self, fingerprints: list[str]) -> set[str]:
        if not fingerprints:
            return set()
        put_away = FailureCase.objects.filter(
            environment=self._standing.environment,
            fingerprint__in=fingerprints,
            state__in=(FailureCase.ARCHIVED, FailureCase.RESOLVED),
        )
        return set(put_away.values_list("fingerprint", flat=True))

    def _made(self, kind: type[Model], moments: list[datetime]) -> Mapping[datetime, int]:
        """What was made at these moments and not taken back, by its moment; not where several were made at once."""
        if not moments:
            return {}
        held = kind._default_manager.filter(
            environment=self._standing.environment, ended_at=None, made_at__in=moments
        ).values_list("made_at", "pk")
        found: dict[datetime, list[int]] = {}
        for made_at, pk in held:
            found.setdefault(made_at, []).append(pk)
        return {made_at: pks[0] for made_at, pks in found.items() if len(pks) == 1}

    @staticmethod
    def _ids_of(ids: list[int], asked: Callable[[list[int]], Any]) -> set[int]:
        return set(asked(ids).values_list("pk", flat=True)) if ids else set()


def _asking(words: str, address: str, *, if_: bool, **said: object) -> WayBack | None:
    return WayBack(words, f"{address}?{urlencode(said)}") if if_ else None


def _id_of(entry: AuditEntry) -> int:
    return parse_number(entry.object.removeprefix("ESC-")) or 0
