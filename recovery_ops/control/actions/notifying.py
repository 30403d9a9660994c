"""What people do about notifications: channels, the rules of what they are told, and the chains of who is asked when.

Addresses and secrets never reach the audit log: it says where a channel leads (the host), and that a secret changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import time
from typing import Any, NotRequired, Required, TypedDict, TypeVar, Unpack, cast

from django.contrib.auth import get_user_model

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.notifying_checks import (
    faults_of_chain,
    faults_of_channel,
    faults_of_rule,
)
from recovery_ops.control.models import AuditEntry, Channel, Delivery, EscalationChain, Notification, NotificationRule
from recovery_ops.control.models.bases import NAME_CHARS
from recovery_ops.control.models.notifying import Wanted
from recovery_ops.control.notify.transport import fault_of_leading
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.chains import parse_steps, steps_document
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.telling import Phase, Severity

PERMISSION = "manage_notifications"
_LISTS = ("triggers", "causes", "providers")
W = TypeVar("W", bound=Wanted)


class Saving(Asked):
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


class Removing(Asked):
    """What a removal is given."""

    number: Required[int]
    version: NotRequired[int | None]


def save_channel(**asked: Unpack[SavingChannel]) -> Done[Channel]:
    """Make a channel, or change one. Raises Refused: 403, 404, 400 by field, 409 when somebody else changed it."""
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


def test_channel(**asked: Unpack[Removing]) -> Done[Delivery]:
    """Send a channel something that says it is a test. Raises Refused: 403, 404, 409 for one that is off."""
    channel = _must(Channel, asked["environment"], asked["number"])
    attempt = Attempt.of(
        "channel.test", PERMISSION, Scope(), _asked(asked), about=_called("channel", channel.name), is_for_agents=False
    )

    def write(revision: int) -> Step[Delivery]:
        if not channel.is_on:
            raise Refused("off", "The channel is switched off: switch it on first.", status=STALE)
        made = Delivery.objects.create(
            environment=channel.environment,
            channel=channel,
            origin=f"test:{channel.pk}",
            person=attempt.by.name[:NAME_CHARS] if channel.kind == Channel.PEOPLE else "",
            lane=f"test:{channel.pk}:{attempt.now:%H%M%S%f}",
            phase=Phase.TOLD.value,
            severity=Severity.INFO.value,
            title=f"A test of channel {channel.name} by {attempt.by.name}",
            lines=["If you read this, messages arrive here. Nothing is wrong."],
            path="/settings/notifications/",
            made_at=attempt.now,
            not_before=attempt.now,
        )
        return Step(object=made, revision=revision, after={"id": made.pk})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: Delivery.objects.get(pk=entry.after["id"]))


def remove_channel(**asked: Unpack[Removing]) -> Done[Channel]:
    """Take a channel away and forget its secret; its log stays. Raises Refused: 403, 404, 409 while it is used."""
    channel = _must(Channel, asked["environment"], asked["number"])

    def clear(one: Channel) -> None:
        used = [rule.name for rule in one.rules.filter(removed_at=None)]
        chains = EscalationChain.objects.filter(environment=one.environment, removed_at=None)
        used += [f"the chain of {chain.name}" for chain in chains if one.pk in _channels_of(chain)]
        if used:
            raise Refused(
                "used", f"{one.name} is used by {', '.join(used)}. Change or remove that first.", status=STALE
            )
        one.address = one.secret = ""

    return _remove(Channel, "channel", channel, _asked(asked), asked.get("version"), _channel_told, clear)


def save_rule(**asked: Unpack[SavingRule]) -> Done[NotificationRule]:
    """Make a rule, or change one. Raises Refused: 403, 404, 400 by field, 409 when somebody else changed it."""
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


def remove_rule(**asked: Unpack[Removing]) -> Done[NotificationRule]:
    """Take a rule away; what it told stays in the log. Raises Refused: 403, 404, 409."""
    rule = _must(NotificationRule, asked["environment"], asked["number"])
    return _remove(NotificationRule, "rule", rule, _asked(asked), asked.get("version"), _rule_told)


def save_chain(**asked: Unpack[SavingChain]) -> Done[EscalationChain]:
    """Make a chain, or change one. Raises Refused: 403, 404, 400 by field, 409 when somebody else changed it."""
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


def remove_chain(**asked: Unpack[Removing]) -> Done[EscalationChain]:
    """Take a chain away: nobody further is asked. Raises Refused: 403, 404, 409."""
    chain = _must(EscalationChain, asked["environment"], asked["number"])
    return _remove(EscalationChain, "chain", chain, _asked(asked), asked.get("version"), _chain_told)


# -- what they share ---------------------------------------------------------------------------------------------------
def _save(
    model: type[W],
    noun: str,
    found: W | None,
    frame: Asked,
    asked: Saving,
    faults: Mapping[str, str],
    change: Callable[[W], None],
    told: Callable[[W], Mapping[str, Any]],
) -> Done[W]:
    name = asked["name"].strip()
    is_on, version = asked.get("is_on", True), asked.get("version")
    others = model._default_manager.filter(environment=frame["environment"], removed_at=None, name=name)
    # Asked again with the same key, the name is taken by what was made the first time.
    is_again = (
        bool(frame.get("key"))
        and AuditEntry.objects.filter(
            environment=frame["environment"], key=frame.get("key"), verb=f"{noun}.save"
        ).exists()
    )
    taken = not is_again and others.exclude(pk=found.pk if found else None).exists()
    checked = {**faults, "name": _fault_of_name(name) or ("is taken by another" if taken else "")}
    attempt = Attempt.of(
        f"{noun}.save", PERMISSION, Scope(), frame, checked, about=_called(noun, name), is_for_agents=False
    )

    def write(revision: int) -> Step[W]:
        if others.exclude(pk=found.pk if found else None).exists():  # since the check
            raise Refused("taken", f"There is another {name} now.", status=STALE, fields={"name": "is taken"})
        one = _fresh(model, found, version) if found else model(environment=attempt.environment)
        before = dict(told(one)) if found else None
        one.name, one.changed_at, one.changed_by = name, attempt.now, attempt.by.name
        change(one)
        one.is_on = is_on
        after = dict(told(one))
        if before is not None and before == {**after, "id": one.pk}:
            return Step(object=one, revision=revision, was_already=True)
        one.version = one.version + 1 if found else 1
        one.save()
        return Step(object=one, revision=revision, before=before, after={**after, "id": one.pk})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: _recalled(model, entry))


def _remove(
    model: type[W],
    noun: str,
    found: W,
    frame: Asked,
    version: int | None,
    told: Callable[[W], Mapping[str, Any]],
    clear: Callable[[W], None] | None = None,
) -> Done[W]:
    about = _called(noun, found.name)
    attempt = Attempt.of(f"{noun}.remove", PERMISSION, Scope(), frame, about=about, is_for_agents=False)

    def write(revision: int) -> Step[W]:
        one = _fresh(model, found, version)
        before = dict(told(one))
        if clear is not None:
            clear(one)
        one.removed_at, one.changed_at, one.changed_by, one.is_on = attempt.now, attempt.now, attempt.by.name, False
        one.version += 1
        one.save()
        return Step(object=one, revision=revision, before=before, after={"id": one.pk})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: _recalled(model, entry))


def _called(noun: str, name: str) -> str:
    """What was done it to, as it reads after a verb: `the rule outages`, `the chain of every queue`."""
    if noun == "chain":
        return f"the chain of {'every queue' if name == '*' else name}"
    return f"the {noun} {name}"


def _fresh(model: type[W], found: W, version: int | None) -> W:
    one: W = model._default_manager.get(pk=found.pk)
    if one.removed_at is not None:
        raise Refused("removed", f"{one.name} was removed by {one.changed_by} meanwhile.", status=STALE)
    if version is not None and version != one.version:
        detail = f"{one.changed_by} changed {one.name} at {one.changed_at:%H:%M:%S} UTC. Look again, then decide."
        raise Refused("stale", detail, status=STALE)
    return one


def _find(model: type[W], environment: str, number: int | None) -> W | None:
    return None if number is None else _must(model, environment, number)


def _must(model: type[W], environment: str, number: int) -> W:
    one: W | None = model._default_manager.filter(environment=environment, pk=number, removed_at=None).first()
    if one is None:
        detail = f"There is nothing of that number in {environment}; it may have been removed."
        raise Refused("unknown", detail, status=UNKNOWN, fields={"number": "is not known"})
    return one


def _recalled(model: type[W], entry: AuditEntry) -> W:
    one: W = model._default_manager.get(pk=entry.after["id"])
    return one


def _asked(asked: Mapping[str, Any]) -> Asked:
    return Asked(
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
        return "is none of the channels here"
    return "writes to whom a chain names; a rule names nobody" if channel.kind == Channel.PEOPLE else ""


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
        "quiet": f"{one.quiet_from:%H:%M} to {one.quiet_to:%H:%M} {one.quiet_zone}, but {one.quiet_passes}"
        if one.quiet_from and one.quiet_to
        else "never",
    }


def _chain_told(one: EscalationChain) -> Mapping[str, Any]:
    return {"id": one.pk, "name": one.name, "is_on": one.is_on, "steps": one.steps}
