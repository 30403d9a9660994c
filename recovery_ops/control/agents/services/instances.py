"""What people do to instances, one or many at once: label and retire them, bring one back, offer a policy again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Required, Unpack

from events.models import Agent
from events.moments import to_us
from events.queries import agent_named
from events.rows import AgentRow
from recovery_ops.control.agents.models.labels import InstanceLabels
from recovery_ops.control.agents.services.labels import label_instance
from recovery_ops.control.core import checks
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.rejections import INVALID, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.opamp.agents import forget_failures
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "retire"
VERBS = {"label": "labelled", "retire": "retired", "restore": "restored", "offer": "offered again"}
"""Each verb, and what came of it in a word."""


class Named(CommandContext):
    """Which instance."""

    service: Required[str]
    instance: Required[str]


def retire_instance(**asked: Unpack[Named]) -> CommandResult[AgentRow]:
    """Say that an instance is gone: it is missed nowhere any more, until it speaks again.

    Raises CommandRejected: 403, 400 also for one that reports, 404 for who never reported.
    """
    return _set("retire", asked)


def restore_instance(**asked: Unpack[Named]) -> CommandResult[AgentRow]:
    """Miss an instance again that was retired. Raises CommandRejected: 403, 400, 404 for who never reported."""
    return _set("restore", asked)


def offer_again(**asked: Unpack[Named]) -> CommandResult[AgentRow]:
    """Offer an OpAMP client again what it could not apply, with its next message.

    Raises CommandRejected: 403, 400 for one that rejected nothing, or is no OpAMP client, 404 for who never reported.
    """
    about = f"{asked['service']}/{asked['instance']}"
    command = Command.of("instance.offer", Scope(), asked, about=about)

    def write(revision: int) -> Change[AgentRow]:
        held = _found(command, asked)
        hashes = forget_failures(command.environment, asked["service"], asked["instance"])
        if not hashes:
            detail = f"{about} has rejected no policy over OpAMP."
            raise CommandRejected("nothing_rejected", detail, status=INVALID, fields={"instance": "rejected nothing"})
        return Change(object=held, revision=revision, after={"hashes": hashes})

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: _found(command, asked))


def _found(command: Command, asked: Named) -> AgentRow:
    about = f"{asked['service']}/{asked['instance']}"
    held = agent_named(command.environment, asked["service"], asked["instance"], now=command.now)
    if held is None:
        detail = f"No instance {about} has reported in {command.environment}."
        raise CommandRejected("unknown_instance", detail, status=NOT_FOUND)
    return held


def _set(verb: str, asked: Named) -> CommandResult[AgentRow]:
    about = f"{asked['service']}/{asked['instance']}"
    command = Command.of(f"instance.{verb}", Scope(), asked, about=about)

    def write(revision: int) -> Change[AgentRow]:
        held = _found(command, asked)
        if verb == "retire" and held.is_reachable:
            detail = f"{about} still reports, so its next heartbeat would restore it. Stop the instance first."
            raise CommandRejected("reports", detail, status=INVALID, fields={"instance": "still reports"})
        if (held.retired_at is not None) == (verb == "retire"):
            return Change(object=held, revision=revision, was_already=True)
        # Whoever is heard of at the same moment has spoken before it.
        at_us = max(to_us(command.now), to_us(held.last_seen)) if verb == "retire" else 0
        Agent.objects.filter(pk=held.id).update(retired_us=at_us)
        told = {"last_seen": held.last_seen.isoformat()}
        return Change(object=_found(command, asked), revision=revision, after=told)

    with command.noted():
        command.check()
        if not about.isprintable():
            raise CommandRejected("unknown_instance", "The name has unprintable characters.", status=NOT_FOUND)
        return execute(command, write, recall=lambda entry: _found(command, asked))


_ONE = {"retire": retire_instance, "restore": restore_instance, "offer": offer_again}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one instance of many."""

    service: str
    instance: str
    text: str
    done: CommandResult[AgentRow] | CommandResult[InstanceLabels] | None = None
    rejection: CommandRejected | None = None

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
        own = key if len(every) == 1 else checks.derive_part_key(key, verb, service, instance)
        given: Any = {"service": service, "instance": instance, "key": own, **asked}
        try:
            done: CommandResult[AgentRow] | CommandResult[InstanceLabels]
            done = label_instance(**given, labels=labels) if verb == "label" else _ONE[verb](**given)
            text = f"already {VERBS[verb]}" if done.was_already else VERBS[verb]
            results.append(Result(service=service, instance=instance, text=text, done=done))
        except CommandRejected as rejection:
            results.append(Result(service=service, instance=instance, text=rejection.detail, rejection=rejection))
    return results
