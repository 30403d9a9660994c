"""What people say about what is hidden: released at once, or proposed where somebody else has to look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.documents import faults_of_document
from recovery_ops.control.actions.proposals import propose
from recovery_ops.control.actions.releases import glass_to_break, recalled, refuse_while_rolling_out, released
from recovery_ops.control.desired import live_policy
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import TITLE_CHARS, PolicyProposal, PolicyRelease
from recovery_ops.control.refusals import Refused
from recovery_ops.rules.masking_rules import masking_document, parse_masking
from recovery_ops.rules.scope import Scope

VERB = "masking.set"
SECTION = "masking"


class Hiding(Asked):
    """What `set_masking` and `propose_masking` are given: the whole section `masking` of the policy.

    `break_glass` releases without the approval that the environment asks for.
    """

    rules: Required[Sequence[Mapping[str, Any]]]
    attributes: Required[Sequence[str]]
    break_glass: NotRequired[bool]


def set_masking(**asked: Unpack[Hiding]) -> Done[PolicyRelease]:
    """Release a policy that hides this, at once: on arrival within seconds, in agents as they take it on.

    Where nothing would change, the live release is the answer. Raises Refused: 403, 400 by path (`rules[0].pattern`),
    409 when the policy was changed since `seen` or a rollout goes on, 403 `review_needed` where somebody else has to
    approve it first.
    """
    environment = asked["environment"]
    section, faults = said_of(asked["rules"], asked["attributes"])
    attempt = Attempt.of(VERB, "edit_policy", Scope(), asked, faults, about="what is masked")

    def write(revision: int) -> Step[PolicyRelease]:
        live = live_policy(environment)
        before, after = _whole(live.document.get(SECTION)), _whole(section)
        if before == after:
            if live.release is None:
                raise Refused("nothing_to_change", "The built-in policy already says so; nothing was changed.")
            return Step(object=live.release, revision=live.release.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        refuse_while_rolling_out(environment)
        is_break_glass = glass_to_break(attempt, is_approved=False, break_glass=asked.get("break_glass", False))
        document = {**live.document, SECTION: after}
        release = released(attempt, document, live, _summary(before, after), revision, is_break_glass=is_break_glass)
        return Step(
            object=release,
            revision=revision,
            before={"version": live.version, **before},
            after={"version": str(release.version), **after},
        )

    with attempt.noted():
        attempt.check()
        impact = impact_of(environment, Scope(), now=attempt.now)
        return carry_out(attempt, write, recall=recalled, impact=impact)


def propose_masking(**asked: Unpack[Hiding]) -> Done[PolicyProposal]:
    """Draft a proposal that hides this, for review. Raises Refused: 403, 400 by path."""
    section, faults = said_of(asked["rules"], asked["attributes"])
    if faults:
        told = "; ".join(f"{path} {fault}" for path, fault in faults.items())
        raise Refused("invalid", f"Nothing was changed: {told}.", fields=faults)
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
    words += [f"{name} hidden whole" for name in after["attributes"] if name not in before["attributes"]]
    words += [f"{name} no longer hidden whole" for name in before["attributes"] if name not in after["attributes"]]
    return ", ".join(words) or "another order"
