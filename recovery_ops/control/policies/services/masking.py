"""What people say about what is hidden: released at once, or proposed where somebody else has to look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.document_checks import faults_of_document
from recovery_ops.control.policies.models.policies import TITLE_CHARS, PolicyProposal, PolicyRelease
from recovery_ops.control.policies.services.proposals import propose
from recovery_ops.control.policies.services.releases import glass_to_break, recalled, refuse_while_rolling_out, released
from recovery_ops.rules.policy.masking_rules import masking_document, parse_masking
from recovery_ops.rules.policy.scope import Scope

VERB = "masking.set"
SECTION = "masking"


class Hiding(CommandContext):
    """What `set_masking` and `propose_masking` are given: the whole section `masking` of the policy.

    `break_glass` releases without the approval that the environment asks for.
    """

    rules: Required[Sequence[Mapping[str, Any]]]
    attributes: Required[Sequence[str]]
    break_glass: NotRequired[bool]


def set_masking(**asked: Unpack[Hiding]) -> CommandResult[PolicyRelease]:
    """Release a policy that hides this, at once: on arrival within seconds, in agents as they take it on.

    Where nothing would change, the live release is the answer. Raises CommandRejected: 403, 400 by path
    (`rules[0].pattern`), 409 when the policy was changed since `seen` or a rollout goes on, 403 `review_needed` where
    somebody else has to approve it first.
    """
    environment = asked["environment"]
    section, faults = said_of(asked["rules"], asked["attributes"])
    command = Command.of(VERB, Scope(), asked, faults, about="masking rules")

    def write(revision: int) -> Change[PolicyRelease]:
        live = live_policy(environment)
        before, after = _whole(live.document.get(SECTION)), _whole(section)
        if before == after:
            if live.release is None:
                raise CommandRejected(
                    "nothing_to_change", "The default policy already has these rules; nothing changed."
                )
            return Change(object=live.release, revision=live.release.revision, was_already=True)
        command.check_fresh(revision - 1)
        refuse_while_rolling_out(environment)
        is_break_glass = glass_to_break(command, is_approved=False, break_glass=asked.get("break_glass", False))
        document = {**live.document, SECTION: after}
        release = released(command, document, live, _summary(before, after), revision, is_break_glass=is_break_glass)
        return Change(
            object=release,
            revision=revision,
            before={"version": live.version, **before},
            after={"version": str(release.version), **after},
        )

    with command.noted():
        command.check()
        impact = impact_of(environment, Scope(), now=command.now)
        return execute(command, write, recall=recalled, impact=impact)


def propose_masking(**asked: Unpack[Hiding]) -> CommandResult[PolicyProposal]:
    """Draft a proposal that hides this, for review. Raises CommandRejected: 403, 400 by path."""
    section, faults = said_of(asked["rules"], asked["attributes"])
    if faults:
        told = "; ".join(f"{path} {fault}" for path, fault in faults.items())
        raise CommandRejected("invalid", f"Change rejected: {told}.", fields=faults)
    live = live_policy(asked["environment"])
    title = f"Masking: {_summary(_whole(live.document.get(SECTION)), _whole(section))}"[:TITLE_CHARS]
    rest: Any = {name: value for name, value in asked.items() if name not in ("rules", "attributes", "break_glass")}
    return propose(**rest, document={**live.document, SECTION: section}, title=title)


def said_of(rules: Sequence[object], attributes: Sequence[object]) -> tuple[dict[str, Any], dict[str, str]]:
    """The section that was said, and its faults by the path within it."""
    section = {"rules": [dict(one) if isinstance(one, Mapping) else one for one in rules], "attributes": [*attributes]}
    faults = faults_of_document({SECTION: section})
    return section, {path.removeprefix(f"{SECTION}."): fault for path, fault in faults.items()}


def _whole(section: object) -> dict[str, Any]:
    return masking_document(parse_masking(section, SECTION, []))


def _summary(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`customer added, card changed`: by the names of rules and attributes."""
    was, is_now = ({one["name"]: one for one in section["rules"]} for section in (before, after))
    words = [f"{name} added" for name in is_now if name not in was]
    words += [f"{name} changed" for name in is_now if name in was and was[name] != is_now[name]]
    words += [f"{name} removed" for name in was if name not in is_now]
    words += [f"{name} fully masked" for name in after["attributes"] if name not in before["attributes"]]
    words += [f"{name} no longer fully masked" for name in before["attributes"] if name not in after["attributes"]]
    return ", ".join(words) or "order changed"
