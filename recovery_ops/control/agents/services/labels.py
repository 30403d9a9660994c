"""Labels of instances: people give them and take them away, and narrow the fleet to one."""

from __future__ import annotations

from typing import Required, Unpack

from events.queries import agent_named
from recovery_ops.control.agents.models.labels import InstanceLabels
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.labels import LABELS_MOST, apply_label_edit, format_labels, labels_error, parse_labels
from recovery_ops.control.core.rejections import INVALID, NOT_FOUND, CommandRejected
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "annotate"
_REASON = "Labelled in the fleet."


class Labelling(CommandContext):
    """Which instance, and labels separated by commas; those behind a minus go. A reason may be empty."""

    service: Required[str]
    instance: Required[str]
    labels: Required[str]


def label_instance(**asked: Unpack[Labelling]) -> CommandResult[InstanceLabels]:
    """Give an instance labels, and take those behind a minus away.

    Raises CommandRejected: 403, 400 for what is no label or more of them than there may be, 404 for who never reported.
    """
    service, instance, typed = asked["service"], asked["instance"], asked["labels"]
    faults = {"labels": labels_error(typed)}
    given: CommandContext = {**asked, "reason": asked["reason"] or _REASON}  # type: ignore[typeddict-unknown-key]  # more than it needs
    about = f"{service}/{instance}"
    command = Command.of("instance.label", Scope(), given, faults, about=about)

    named = {"environment": command.environment, "service": service, "instance": instance}

    def held() -> InstanceLabels:
        return InstanceLabels.objects.filter(**named).first() or InstanceLabels(**named)

    def write(revision: int) -> Change[InstanceLabels]:
        one = held()
        before, kept = one.label_names, apply_label_edit(one.label_names, typed)
        if len(kept) > LABELS_MOST:
            detail = f"The instance would have {len(kept)} labels; use at most {LABELS_MOST}."
            raise CommandRejected(
                "too_many",
                detail,
                status=INVALID,
                fields={"labels": f"would be {len(kept)}, {LABELS_MOST} at most"},
            )
        if kept == before:
            return Change(object=one, revision=revision, was_already=True)
        one.labels = format_labels(kept)
        one.save()
        return Change(object=one, revision=revision, before={"labels": before}, after={"labels": kept})

    with command.noted():
        command.check()
        reported = agent_named(**named, now=command.now) if about.isprintable() else None
        if reported is None:
            detail = f"No instance {about} has reported in {command.environment}."
            raise CommandRejected("unknown_instance", detail, status=NOT_FOUND)
        named["instance"] = reported.instance  # one without an id goes by what the fleet calls it
        return execute(command, write, recall=lambda entry: held())


def labels_of(environment: str, service: str, instance: str) -> list[str]:
    """The labels of one instance. One query."""
    named = InstanceLabels.objects.filter(environment=environment, service=service, instance=instance)
    return parse_labels(named.values_list("labels", flat=True).first() or "")


def labels_by_instance(environment: str) -> dict[tuple[str, str], list[str]]:
    """The labels of every instance that has some, by service and name. One query."""
    found = InstanceLabels.objects.filter(environment=environment).exclude(labels="")
    return {(one.service, one.instance): one.label_names for one in found}
