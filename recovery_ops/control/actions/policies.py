"""Edits the policy: every change is a release of its own, checked by the same rules that agents check it with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.releases import glass_to_break, recalled, refuse_while_rolling_out, released
from recovery_ops.control.desired import live_policy
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import PolicyRelease
from recovery_ops.control.refusals import Refused
from recovery_ops.rules.knobs import KNOBS, fault_of
from recovery_ops.rules.policy import PolicyInvalid, parse_policy
from recovery_ops.rules.scope import ANY, Scope
from recovery_ops.wire import scope_document

VERB = "policy.edit"


class Editing(Asked):
    """What `set_operation_policy` is given.

    `knobs` holds values by the names of rules.knobs: None takes a knob back, what is not named stays. `ahead` allows an
    operation that nobody has reported yet. `break_glass` releases without the approval that the environment asks for.
    """

    operation: Required[str]
    knobs: Required[Mapping[str, object]]
    service: NotRequired[str]
    ahead: NotRequired[bool]
    break_glass: NotRequired[bool]


def set_operation_policy(**asked: Unpack[Editing]) -> Done[PolicyRelease]:
    """Set knobs of one operation, everywhere or in one service, and release the policy at once.

    A rule that says nothing goes. Running agents take the new policy on without losing a breaker's state.
    Where nothing would change, the live release is the answer. Raises Refused: 403, 400 by knob, 404 for an operation
    nobody reported, 409 when the policy of this operation was changed since `seen`, 403 `review_needed` where somebody
    else has to approve it first.
    """
    environment, knobs = asked["environment"], asked["knobs"]
    scope = Scope(operation=asked["operation"], service=asked.get("service", ANY))
    attempt = Attempt.of(VERB, "edit_policy", scope, asked, _faults(knobs))

    def write(revision: int) -> Step[PolicyRelease]:
        live = live_policy(environment)
        before = knobs_of(live.document, scope)
        after = {name: _plain(name, value) for name, value in {**before, **knobs}.items() if value is not None}
        if before == after:
            if live.release is None:
                raise Refused("nothing_to_change", "The built-in policy already says so; nothing was changed.")
            return Step(object=live.release, revision=live.release.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        refuse_while_rolling_out(environment)
        is_break_glass = glass_to_break(attempt, is_approved=False, break_glass=asked.get("break_glass", False))
        document = with_rule(live.document, scope, after)
        _check(document, scope)
        summary = _summary(scope, before, after)
        release = released(attempt, document, live, summary, revision, is_break_glass=is_break_glass)
        return Step(
            object=release,
            revision=revision,
            before={"version": live.version, "knobs": before},
            after={"version": str(release.version), "knobs": after},
        )

    with attempt.noted():
        attempt.check()
        if not asked.get("ahead"):
            checks.require_known_operation(environment, scope.operation, attempt.now)
        impact = impact_of(environment, scope, now=attempt.now)
        return carry_out(attempt, write, recall=recalled, impact=impact)


def edited(document: Mapping[str, Any], scope: Scope, knobs: Mapping[str, object]) -> tuple[dict[str, Any], str]:
    """The document with these knobs set in the rule of exactly this scope, as an edit would, and what changes in words.

    Raises Refused (400) by knob.
    """
    checks.refuse(_faults(knobs))
    before = knobs_of(document, scope)
    after = {name: _plain(name, value) for name, value in {**before, **knobs}.items() if value is not None}
    new = with_rule(document, scope, after)
    _check(new, scope)
    return new, _summary(scope, before, after)


def knobs_of(document: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """The knobs that the rule of exactly this scope states; nothing where there is no such rule."""
    index = _index_of(document, scope)
    return {} if index is None else dict(document["rules"][index].get("knobs", {}))


def with_rule(document: Mapping[str, Any], scope: Scope, knobs: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a policy document in which the rule of exactly this scope states these knobs.

    Its id, place, fallbacks and models stay; a new rule comes last. A rule that states nothing is left out.
    """
    rules = [dict(rule) for rule in document.get("rules", [])]
    index = _index_of(document, scope)
    if index is None:
        rules.append({"id": _new_id(rules, scope), "scope": scope_document(scope), "knobs": dict(knobs)})
    elif knobs or any(rules[index].get(name) is not None for name in ("fallbacks", "models")):
        rules[index]["knobs"] = dict(knobs)
    else:
        del rules[index]
    return {**document, "rules": rules}


def _index_of(document: Mapping[str, Any], scope: Scope) -> int | None:
    wanted = scope_document(scope)
    for index, rule in enumerate(document.get("rules", [])):
        if {name: part for name, part in rule.get("scope", {}).items() if part != ANY} == wanted:
            return index
    return None


def _new_id(rules: list[dict[str, Any]], scope: Scope) -> str:
    """`search_web`, or `search_web of research`; with a number where somebody took that name for another rule."""
    name = scope.operation if scope.service == ANY else f"{scope.operation} of {scope.service}"
    taken = {rule.get("id") for rule in rules}
    numbered = (f"{name} {number}" for number in range(2, len(rules) + 3))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def _faults(knobs: Mapping[str, object]) -> dict[str, str]:
    """What is wrong with each knob, as the rules say it."""
    faults = {name: "is not a knob of the policy" for name in knobs if name not in KNOBS}
    said = {name: value for name, value in knobs.items() if name in KNOBS and value is not None}
    return faults | {name: fault for name, value in said.items() if (fault := fault_of(KNOBS[name], value))}


def _plain(name: str, value: Any) -> Any:
    """A checked value as the document holds it: 3.0 retries are 3."""
    kind = KNOBS[name].kind if name in KNOBS else ""
    return int(value) if kind == "whole" else float(value) if kind == "number" else value


def _check(document: Mapping[str, Any], scope: Scope) -> None:
    """Raise Refused when agents would not take the document; the faults of this rule's knobs by their names."""
    try:
        parse_policy(document)
    except PolicyInvalid as invalid:
        path = f"rules[{_index_of(document, scope)}].knobs."
        fields = {problem.path.removeprefix(path): problem.message for problem in invalid.problems}
        raise Refused("invalid", f"Nothing was changed: {invalid}.", fields=fields) from None


def _summary(scope: Scope, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`search_web: max_retries 2 → 5, jitter not set`: what changed, in the words of the rules."""
    changed = [name for name in KNOBS if before.get(name) != after.get(name)]
    said = ", ".join(f"{name} {_word(before.get(name))} → {_word(after.get(name))}" for name in changed)
    return f"{scope.operation}{'' if scope.service == ANY else f' of {scope.service}'}: {said}"


def _word(value: object) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
