"""Acts that wait for a second person or went without one: told when somebody is needed, and when nobody is any more."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Q
from django.urls import reverse

from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.notifications.triggers import LOOKED_BACK, Look, Occurrence
from recovery_ops.rules.notifications.grouping import Phase, Severity

_PREFIX = "request "
_ENDS = {
    ApprovalRequest.AGREED: "is approved",
    ApprovalRequest.REJECTED: "is rejected",
    ApprovalRequest.WITHDRAWN: "is withdrawn",
    ApprovalRequest.EXPIRED: "is expired",
    ApprovalRequest.REVIEWED: "is reviewed",
}


def found(look: Look) -> Iterator[Occurrence]:
    """What needs somebody, and what was told to and does not. One query, none where no rule asks."""
    told = {one for one in look.open if one.startswith(_PREFIX)}
    if not look.wants("second_person") and not told:
        return
    numbers = [int(one.removeprefix(_PREFIX)) for one in told]
    needed = Q(state=ApprovalRequest.WAITING, expires_at__gt=look.now)
    needed |= Q(state=ApprovalRequest.GLASS, asked_at__gte=look.now - LOOKED_BACK)
    for held in ApprovalRequest.objects.filter(needed | Q(number__in=numbers), environment=look.environment).order_by(
        "number"
    ):
        state = held.state_at(look.now)
        if state in _ENDS:
            yield _occurrence(look, held, Phase.ENDED, f"Approval request {held.number} {_ENDS[state]}")
        elif state == ApprovalRequest.GLASS:
            title = f"Break-glass by {held.by}: {held.act.replace('_', ' ')} {held.about}"
            yield _occurrence(look, held, Phase.BEGAN, title)
        else:
            title = f"Approval requested by {held.by}: {held.act.replace('_', ' ')} {held.about}"
            yield _occurrence(look, held, Phase.BEGAN, title)


def _occurrence(look: Look, held: ApprovalRequest, phase: Phase, title: str) -> Occurrence:
    is_end = phase is Phase.ENDED
    until = f" Expires {held.expires_at:%H:%M} UTC." if held.state == ApprovalRequest.WAITING and not is_end else ""
    return Occurrence(
        kind="second_person_done" if is_end else "second_person",
        event=f"{_PREFIX}{held.number}",
        subject=f"{_PREFIX}{held.number}",
        phase=phase,
        severity=Severity.WARNING,
        at=(held.decided_at or look.now) if is_end else held.asked_at,
        title=title,
        text=held.decision_reason if is_end else f"“{held.reason}”{until}",
        path=reverse("held-act", args=[held.number]),
        triggers=frozenset() if is_end else frozenset({"second_person"}),
    )
