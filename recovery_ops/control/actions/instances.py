"""What people do to instances, one or many at once: label them, retire those that are gone, and bring one back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Required, Unpack

from events.models import Agent
from events.moments import to_us
from events.queries import agent_named
from events.rows import AgentRow
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.labelling import label_instance
from recovery_ops.control.models import InstanceLabels
from recovery_ops.control.refusals import INVALID, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

PERMISSION = "retire"
VERBS = {"label": "labelled", "retire": "retired", "restore": "missed again"}
"""Each verb, and what came of it in a word."""


class Named(Asked):
    """Which instance."""

    service: Required[str]
    instance: Required[str]


def retire_instance(**asked: Unpack[Named]) -> Done[AgentRow]:
    """Say that an instance is gone: it is missed nowhere any more, until it speaks again.

    Raises Refused: 403, 400 also for one that reports, 404 for who never reported.
    """
    return _set("retire", asked)


def restore_instance(**asked: Unpack[Named]) -> Done[AgentRow]:
    """Miss an instance again that was retired. Raises Refused: 403, 400, 404 for who never reported."""
    return _set("restore", asked)


def _set(verb: str, asked: Named) -> Done[AgentRow]:
    about = f"{asked['service']}/{asked['instance']}"
    attempt = Attempt.of(f"instance.{verb}", PERMISSION, Scope(), asked, about=about, is_for_agents=False)

    def found() -> AgentRow:
        held = agent_named(attempt.environment, asked["service"], asked["instance"], now=attempt.now)
        if held is None:
            detail = f"No instance {about} has ever reported in {attempt.environment}."
            raise Refused("unknown_instance", detail, status=UNKNOWN)
        return held

    def write(revision: int) -> Step[AgentRow]:
        held = found()
        if verb == "retire" and held.is_reachable:
            detail = f"{about} reports: it would be back with its next heartbeat. Stop it first."
            raise Refused("reports", detail, status=INVALID, fields={"instance": "still reports"})
        if (held.retired_at is not None) == (verb == "retire"):
            return Step(object=held, revision=revision, was_already=True)
        # Whoever is heard of at the same moment has spoken before it.
        at_us = max(to_us(attempt.now), to_us(held.last_seen)) if verb == "retire" else 0
        Agent.objects.filter(pk=held.id).update(retired_us=at_us)
        told = {"last_seen": held.last_seen.isoformat()}
        return Step(object=found(), revision=revision, after=told)

    with attempt.noted():
        attempt.check()
        if not about.isprintable():
            raise Refused("unknown_instance", "No instance is called that.", status=UNKNOWN)
        return carry_out(attempt, write, recall=lambda entry: found())


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one instance of many."""

    service: str
    instance: str
    text: str
    done: Done[AgentRow] | Done[InstanceLabels] | None = None
    refusal: Refused | None = None

    @property
    def name(self) -> str:
        """`research/r-1`."""
        return f"{self.service}/{self.instance}"


def act_on_each(
    verb: str, named: Iterable[tuple[str, str]], *, key: str | None = None, labels: str = "", **asked: Any
) -> list[Result]:
    """Do one act to many, each by itself: one that is refused holds no other back. `labels` are those of `label`."""
    results: list[Result] = []
    every = list(dict.fromkeys(named))
    for service, instance in every:
        own = key if len(every) == 1 else checks.key_of_part(key, verb, service, instance)
        given: Any = {"service": service, "instance": instance, "key": own, **asked}
        try:
            done: Done[AgentRow] | Done[InstanceLabels]
            if verb == "label":
                done = label_instance(**given, labels=labels)
            else:
                done = retire_instance(**given) if verb == "retire" else restore_instance(**given)
            text = "it was so already" if done.was_already else VERBS[verb]
            results.append(Result(service=service, instance=instance, text=text, done=done))
        except Refused as refusal:
            results.append(Result(service=service, instance=instance, text=refusal.detail, refusal=refusal))
    return results
