"""Labels of instances: people give them and take them away, and narrow the fleet to one."""

from __future__ import annotations

from typing import Required, Unpack

from events.queries import agent_named
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.labels import LABELS_MOST, fault_of_labels, kept_as, labelled, names_of
from recovery_ops.control.models import InstanceLabels
from recovery_ops.control.refusals import INVALID, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

PERMISSION = "annotate"
_REASON = "Labelled in the fleet."


class Labelling(Asked):
    """Which instance, and labels separated by commas; those behind a minus go. A reason may be empty."""

    service: Required[str]
    instance: Required[str]
    labels: Required[str]


def label_instance(**asked: Unpack[Labelling]) -> Done[InstanceLabels]:
    """Give an instance labels, and take those behind a minus away.

    Raises Refused: 403, 400 for what is no label or more of them than there may be, 404 for who never reported.
    """
    service, instance, typed = asked["service"], asked["instance"], asked["labels"]
    faults = {"labels": fault_of_labels(typed)}
    given: Asked = {**asked, "reason": asked["reason"] or _REASON}  # type: ignore[typeddict-unknown-key]  # more than it needs
    about = f"{service}/{instance}"
    attempt = Attempt.of("instance.label", PERMISSION, Scope(), given, faults, about=about, is_for_agents=False)

    named = {"environment": attempt.environment, "service": service, "instance": instance}

    def held() -> InstanceLabels:
        return InstanceLabels.objects.filter(**named).first() or InstanceLabels(**named)

    def write(revision: int) -> Step[InstanceLabels]:
        one = held()
        before, kept = one.label_names, labelled(one.label_names, typed)
        if len(kept) > LABELS_MOST:
            detail = f"It would have {len(kept)} labels; {LABELS_MOST} is the most."
            raise Refused("too_many", detail, status=INVALID, fields={"labels": f"leave more than {LABELS_MOST}"})
        if kept == before:
            return Step(object=one, revision=revision, was_already=True)
        one.labels = kept_as(kept)
        one.save()
        return Step(object=one, revision=revision, before={"labels": before}, after={"labels": kept})

    with attempt.noted():
        attempt.check()
        reported = agent_named(**named, now=attempt.now) if about.isprintable() else None
        if reported is None:
            detail = f"No instance {about} has ever reported in {attempt.environment}."
            raise Refused("unknown_instance", detail, status=UNKNOWN)
        named["instance"] = reported.instance  # one without an id goes by what the fleet calls it
        return carry_out(attempt, write, recall=lambda entry: held())


def labels_of(environment: str, service: str, instance: str) -> list[str]:
    """The labels of one instance. One query."""
    named = InstanceLabels.objects.filter(environment=environment, service=service, instance=instance)
    return names_of(named.values_list("labels", flat=True).first() or "")


def labels_by_instance(environment: str) -> dict[tuple[str, str], list[str]]:
    """The labels of every instance that has some, by service and name. One query."""
    found = InstanceLabels.objects.filter(environment=environment).exclude(labels="")
    return {(one.service, one.instance): one.label_names for one in found}
