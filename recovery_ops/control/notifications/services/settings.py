"""What people do about notifications: channels, the rules of what they are told, and the chains of who is asked when.

Addresses and secrets never reach the audit log: it says where a channel leads (the host), and that a secret changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import time
from typing import Any, NotRequired, Required, TypedDict, TypeVar, Unpack, cast

from django.contrib.auth import get_user_model

from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute, is_repeated
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.notifications.models.notifications import (
    Channel,
    Delivery,
    EscalationChain,
    Notification,
    NotificationRule,
    Wanted,
)
from recovery_ops.control.notifications.services.checks import (
    faults_of_chain,
    faults_of_channel,
    faults_of_rule,
)
from recovery_ops.control.notifications.transport import fault_of_leading
from recovery_ops.rules.notifications.escalation_levels import parse_steps, steps_document
from recovery_ops.rules.notifications.grouping import Phase, Severity
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "manage_notifications"
_LISTS = ("triggers", "causes", "providers")
W = TypeVar("W", bound=Wanted)


class Saving(CommandContext):
    """What every saving is given. `number` None makes a new one; `version` is the one the asker looked at."""

    name: Required[str]
    number: NotRequired[int | None]
    version: NotRequired[int | None]
    is_on: NotRequired[bool]


class SavingChannel(Saving):
    """A channel. An address or secret that is empty stays as it is."""

    kind: NotRequired[str]
    address: NotRequired[str]
    secret: NotRequired[str]


class RuleWords(TypedDict, total=False):
    """What a rule asks for; the columns of `NotificationRule`."""

    triggers: Sequence[str]
    operation: str
    queue: str
    causes: Sequence[str]
    providers: Sequence[str]
    least_severity: str
    failures: int
    within_min: int
    expiry_lead_min: int
    group_s: int
    quiet_from: time | None
    quiet_to: time | None
    quiet_zone: str
    quiet_passes: str


class SavingRule(Saving):
    """A rule: the channel's number, and what it is told."""

    channel: Required[int]
    words: Required[RuleWords]


class SavingChain(Saving):
    """A chain: its `name` is the queue, `steps` as `rules.chains.parse_steps` reads them."""

    steps: Required[Sequence[Mapping[str, object]]]


class Removing(CommandContext):
    """What a removal is given."""

    number: Required[int]
    version: NotRequired[int | None]


def save_channel(**asked: Unpack[SavingChannel]) -> CommandResult[Channel]:
    """Make a channel, or change one.

    Raises CommandRejected: 403, 404, 400 by field, 409 when somebody else changed it.
    """
    found = _find(Channel, asked["environment"], asked.get("number"))
    kind = found.kind if found else asked.get("kind", "")
    address, secret = asked.get("address", "").strip(), asked.get("secret", "").strip()
    faults = faults_of_channel(kind, address, secret, found)
    is_posted = address and kind not in Channel.MAILED and not faults.get("address") and not faults.get("kind")
    if is_posted and asked["by"].may(PERMISSION, asked["environment"]):  # nobody else makes the server look up names
        faults["address"] = fault_of_leading(address)

    def change(one: Channel) -> None:
        one.kind = kind
        if (address, secret) != ("", ""):
            one.credentials += 1
        one.address = address or one.address
        one.secret = secret or one.secret

    return _save(Channel, "channel", found, _asked(asked), asked, faults, change, _channel_told)


def test_channel(**asked: Unpack[Removing]) -> CommandResult[Delivery]:
    """Send a channel something that says it is a test. Raises CommandRejected: 403, 404, 409 for one that is off."""
    channel = _must(Channel, asked["environment"], asked["number"])
    command = Command.of("channel.test", Scope(), _asked(asked), about=_called("channel", channel.name))

    def write(revision: int) -> Change[Delivery]:
        if not channel.is_on:
            raise CommandRejected("off", "The channel is disabled; enable it first.", status=CONFLICT)
        made = Delivery.objects.create(
            environment=channel.environment,
            channel=channel,
            origin=f"test:{channel.pk}",
            person=command.by.name[:NAME_CHARS] if channel.kind == Channel.PEOPLE else "",
            lane=f"test:{channel.pk}:{command.now:%H%M%S%f}",
            phase=Phase.TOLD.value,
            severity=Severity.INFO.value,
            title=f"Test of channel {channel.name} by {command.by.name}",
            lines=["The channel works. No action needed."],
            path="/settings/notifications/",
            made_at=command.now,
            not_before=command.now,
        )
        return Change(object=made, revision=revision, after={"id": made.pk})

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: Delivery.objects.get(pk=entry.after["id"]))


def remove_channel(**asked: Unpack[Removing]) -> CommandResult[Channel]:
    """Take a channel away and forget its secret; its log stays.

    Raises CommandRejected: 403, 404, 409 while it is used.
    """
    channel = _to_remove(Channel, "channel", asked)

    def clear(one: Channel) -> None:
        used = [rule.name for rule in one.rules.filter(removed_at=None)]
        chains = EscalationChain.objects.filter(environment=one.environment, removed_at=None)
        used += [f"the escalation policy of {chain.name}" for chain in chains if one.pk in _channels_of(chain)]
        if used:
            raise CommandRejected(
                "used", f"{one.name} is used by {', '.join(used)}; edit or delete these first.", status=CONFLICT
            )
        one.address = one.secret = ""

    return _remove(Channel, "channel", channel, _asked(asked), asked.get("version"), _channel_told, clear)


def save_rule(**asked: Unpack[SavingRule]) -> CommandResult[NotificationRule]:
    """Make a rule, or change one. Raises CommandRejected: 403, 404, 400 by field, 409 when somebody else changed it."""
    found = _find(NotificationRule, asked["environment"], asked.get("number"))
    words = asked["words"]
    channel = Channel.objects.filter(environment=asked["environment"], removed_at=None, pk=asked["channel"]).first()
    faults = {**faults_of_rule(words), "channel": _fault_of_rules_channel(channel)}

    def change(one: NotificationRule) -> None:
        before = _asks_for(one) if one.pk else None
        one.channel = cast(Channel, channel)
        for name, value in words.items():
            setattr(one, name, list(cast("Sequence[str]", value)) if name in _LISTS else value)
        is_on = asked.get("is_on", True)
        if before is None or before != _asks_for(one) or is_on != one.is_on:
            one.since = one.changed_at
        if one.pk and is_on and not one.is_on:  # what was held when it was switched off is history
            Notification.objects.filter(rule=one, delivery=None).delete()

    return _save(NotificationRule, "rule", found, _asked(asked), asked, faults, change, _rule_told)


def remove_rule(**asked: Unpack[Removing]) -> CommandResult[NotificationRule]:
    """Take a rule away; what it told stays in the log. Raises CommandRejected: 403, 404, 409."""
    rule = _to_remove(NotificationRule, "rule", asked)
    return _remove(NotificationRule, "rule", rule, _asked(asked), asked.get("version"), _rule_told)


def save_chain(**asked: Unpack[SavingChain]) -> CommandResult[EscalationChain]:
    """Make a chain, or change one.

    Raises CommandRejected: 403, 404, 400 by field, 409 when somebody else changed it.
    """
    found = _find(EscalationChain, asked["environment"], asked.get("number"))
    steps, problems = parse_steps(asked["steps"])
    channels = Channel.objects.filter(environment=asked["environment"], removed_at=None)
    people = get_user_model().objects.filter(is_active=True)
    faults = faults_of_chain(
        steps,
        problems,
        channels=dict(channels.values_list("pk", "kind")),
        people=set(people.values_list("username", flat=True)),
    )

    def change(one: EscalationChain) -> None:
        one.steps = steps_document(steps)
        if found is None or (asked.get("is_on", True) and not one.is_on):
            one.since = one.changed_at

    return _save(EscalationChain, "chain", found, _asked(asked), asked, faults, change, _chain_told)


def remove_chain(**asked: Unpack[Removing]) -> CommandResult[EscalationChain]:
    """Take a chain away: nobody further is asked. Raises CommandRejected: 403, 404, 409."""
    chain = _to_remove(EscalationChain, "chain", asked)
    return _remove(EscalationChain, "chain", chain, _asked(asked), asked.get("version"), _chain_told)


# -- what they share ---------------------------------------------------------------------------------------------------
def _save(
    model: type[W],
    noun: str,
    found: W | None,
    frame: CommandContext,
    asked: Saving,
    faults: Mapping[str, str],
    change: Callable[[W], None],
    told: Callable[[W], Mapping[str, Any]],
) -> CommandResult[W]:
    name = asked["name"].strip()
    is_on, version = asked.get("is_on", True), asked.get("version")
    others = model._default_manager.filter(environment=frame["environment"], removed_at=None, name=name)
    # Asked again with the same key, the name is taken by what was made the first time.
    taken = not is_repeated(frame, f"{noun}.save") and others.exclude(pk=found.pk if found else None).exists()
    checked = {**faults, "name": _fault_of_name(name) or ("exists already" if taken else "")}
    command = Command.of(f"{noun}.save", Scope(), frame, checked, about=_called(noun, name))

    def write(revision: int) -> Change[W]:
        if others.exclude(pk=found.pk if found else None).exists():  # since the check
            raise CommandRejected(
                "taken", f"{name} exists already.", status=CONFLICT, fields={"name": "exists already"}
            )
        one = _fresh(model, found, version) if found else model(environment=command.environment)
        before = dict(told(one)) if found else None
        one.name, one.changed_at, one.changed_by = name, command.now, command.by.name
        change(one)
        one.is_on = is_on
        after = dict(told(one))
        if before is not None and before == {**after, "id": one.pk}:
            return Change(object=one, revision=revision, was_already=True)
        one.version = one.version + 1 if found else 1
        one.save()
        return Change(object=one, revision=revision, before=before, after={**after, "id": one.pk})

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: _recalled(model, entry))


def _remove(
    model: type[W],
    noun: str,
    found: W,
    frame: CommandContext,
    version: int | None,
    told: Callable[[W], Mapping[str, Any]],
    clear: Callable[[W], None] | None = None,
) -> CommandResult[W]:
    about = _called(noun, found.name)
    command = Command.of(f"{noun}.remove", Scope(), frame, about=about)

    def write(revision: int) -> Change[W]:
        one = _fresh(model, found, version)
        before = dict(told(one))
        if clear is not None:
            clear(one)
        one.removed_at, one.changed_at, one.changed_by, one.is_on = command.now, command.now, command.by.name, False
        one.version += 1
        one.save()
        return Change(object=one, revision=revision, before=before, after={"id": one.pk})

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: _recalled(model, entry))


def _called(noun: str, name: str) -> str:
    """What was done it to, as it reads after a verb: `the rule outages`, `the chain of every queue`."""
    if noun == "chain":
        return f"the escalation policy of {'all queues' if name == '*' else name}"
    return f"the {noun} {name}"


def _fresh(model: type[W], found: W, version: int | None) -> W:
    one: W = model._default_manager.get(pk=found.pk)
    if one.removed_at is not None:
        raise CommandRejected("removed", f"{one.name} was deleted by {one.changed_by}.", status=CONFLICT)
    if version is not None and version != one.version:
        detail = f"{one.changed_by} changed {one.name} at {one.changed_at:%H:%M:%S} UTC. Reload, then decide."
        raise CommandRejected("stale", detail, status=CONFLICT)
    return one


def _find(model: type[W], environment: str, number: int | None) -> W | None:
    return None if number is None else _must(model, environment, number)


def _must(model: type[W], environment: str, number: int) -> W:
    one: W | None = model._default_manager.filter(environment=environment, pk=number, removed_at=None).first()
    if one is None:
        detail = f"The object does not exist in {environment}."
        raise CommandRejected("unknown", detail, status=NOT_FOUND, fields={"number": "is unknown"})
    return one


def _to_remove(model: type[W], noun: str, asked: Removing) -> W:
    """What to remove; asked again with the same key, what was removed the first time."""
    if is_repeated(_asked(asked), f"{noun}.remove"):
        removed = model._default_manager.filter(environment=asked["environment"], pk=asked["number"]).first()
        if removed is not None:
            return removed
    return _must(model, asked["environment"], asked["number"])


def _recalled(model: type[W], entry: AuditEntry) -> W:
    one: W = model._default_manager.get(pk=entry.after["id"])
    return one


def _asked(asked: Mapping[str, Any]) -> CommandContext:
    return CommandContext(
        by=asked["by"],
        environment=asked["environment"],
        reason=asked["reason"],
        seen=None,  # each has a version of its own
        key=asked.get("key"),
        dry_run=asked.get("dry_run", False),
        now=asked.get("now"),
    )


def _asks_for(one: NotificationRule) -> tuple[object, ...]:
    """What decides which things a rule tells."""
    return (one.triggers, one.operation, one.queue, one.causes, one.providers, one.least_severity)


def _fault_of_rules_channel(channel: Channel | None) -> str:
    if channel is None:
        return "is not a channel of this environment"
    return "sends to users of an escalation policy; a rule has no users" if channel.kind == Channel.PEOPLE else ""


def _fault_of_name(name: str) -> str:
    if not name or len(name) > 64:
        return "is a name of at most 64 characters"
    return "" if name.isprintable() else "has characters that cannot be shown"


def _channels_of(chain: EscalationChain) -> set[int]:
    steps, _ = parse_steps(chain.steps)
    return {step.channel for step in steps}


# -- what the audit log keeps ------------------------------------------------------------------------------------------
def _channel_told(one: Channel) -> Mapping[str, Any]:
    """Where it leads as everybody may see it; of what is secret, only how often it was changed."""
    return {
        "id": one.pk,
        "name": one.name,
        "kind": one.kind,
        "leads_to": one.target,
        "credentials": one.credentials,
        "is_on": one.is_on,
    }


def _rule_told(one: NotificationRule) -> Mapping[str, Any]:
    return {
        "id": one.pk,
        "name": one.name,
        "channel": one.channel.name if one.channel_id else "",
        "is_on": one.is_on,
        **{name: getattr(one, name) for name in RuleWords.__annotations__ if not name.startswith("quiet_")},
        "quiet": f"{one.quiet_from:%H:%M} to {one.quiet_to:%H:%M} {one.quiet_zone}, bypass {one.quiet_passes}"
        if one.quiet_from and one.quiet_to
        else "never",
    }


def _chain_told(one: EscalationChain) -> Mapping[str, Any]:
    return {"id": one.pk, "name": one.name, "is_on": one.is_on, "steps": one.steps}
