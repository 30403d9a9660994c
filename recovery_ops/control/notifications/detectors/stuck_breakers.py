"""Breakers that are stuck: told once when they are found so, and once when they are not any more."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import reverse

from events.queries import breakers
from recovery_ops.control.breakers.stuck import stuck_among
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.notifications.triggers import Look, Occurrence
from recovery_ops.rules.notifications.grouping import Phase, Severity
from recovery_ops.rules.policy.model import parse_policy

_PREFIX = "stuck "


def found(look: Look) -> Iterator[Occurrence]:
    """What is stuck, and what was told to be and is not. Four queries, none where no rule asks."""
    told = {one for one in look.open if one.startswith(_PREFIX)}
    if not look.wants("breaker_stuck") and not told:
        return
    policy = parse_policy(live_policy(look.environment).document)
    now_stuck = set()
    for name, findings in stuck_among(breakers(look.environment, now=look.now), policy, now=look.now).items():
        for one in findings:
            subject = f"{_PREFIX}{one.kind.value} {name}"
            now_stuck.add(subject)
            if subject not in told:
                yield _occurrence(look, subject, name, Phase.BEGAN, f"Breaker {name} is stuck", one.sentence)
    for subject in sorted(told - now_stuck):
        name = subject.split(" ", 2)[2]
        yield _occurrence(look, subject, name, Phase.ENDED, f"Breaker {name} is no longer stuck", "")


def _occurrence(look: Look, subject: str, name: str, phase: Phase, title: str, text: str) -> Occurrence:
    is_end = phase is Phase.ENDED
    return Occurrence(
        kind="breaker_unstuck" if is_end else "breaker_stuck",
        event=f"{subject}:{look.now:%Y-%m-%dT%H:%M}",
        subject=subject,
        phase=phase,
        severity=Severity.WARNING,
        at=look.now,
        title=title,
        text=text,
        path=reverse("breaker", args=[name]),
        triggers=frozenset() if is_end else frozenset({"breaker_stuck"}),
        operation=name,
        is_flappy=True,
    )
