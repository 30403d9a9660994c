"""Edits the policy: every change is a release of its own, checked by the same rules that agents check it with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.core import checks
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.services.releases import glass_to_break, recalled, refuse_while_rolling_out, released
from recovery_ops.rules.policy.model import PolicyInvalid, parse_policy
from recovery_ops.rules.policy.scope import ANY, Scope
from recovery_ops.rules.policy.settings import SETTINGS, fault_of
from recovery_ops.wire import scope_document

VERB = "policy.edit"


class Editing(CommandContext):
    """What `set_operation_policy` is given.

    `settings` holds values by name: None takes a setting back, what is not named stays. `ahead` allows an
    operation that nobody has reported yet. `break_glass` releases without the approval that the environment asks for.
    """

    operation: Required[str]
    settings: Required[Mapping[str, object]]
    service: NotRequired[str]
    ahead: NotRequired[bool]
    break_glass: NotRequired[bool]


def set_operation_policy(**asked: Unpack[Editing]) -> CommandResult[PolicyRelease]:
    """Set settings of one operation, everywhere or in one service, and release the policy at once.

    A rule that says nothing goes. Running agents take the new policy on without losing a breaker's state. Where nothing
    would change, the live release is the answer. Raises CommandRejected: 403, 400 by setting, 404 for an operation that
    is not known, 409 when the policy of this operation was changed since `seen`, 403 `review_needed` where another user
    has to approve it first.
    """
    environment, settings = asked["environment"], asked["settings"]
    scope = Scope(operation=asked["operation"], service=asked.get("service", ANY))
    command = Command.of(VERB, scope, asked, _faults(settings))

    def write(revision: int) -> Change[PolicyRelease]:
        live = live_policy(environment)
        before = settings_of(live.document, scope)
        after = {name: _plain(name, value) for name, value in {**before, **settings}.items() if value is not None}
        if before == after:
            if live.release is None:
                raise CommandRejected(
                    "nothing_to_change", "The default policy already has these values; nothing changed."
                )
            return Change(object=live.release, revision=live.release.revision, was_already=True)
        command.check_fresh(revision - 1)
        refuse_while_rolling_out(environment)
        is_break_glass = glass_to_break(command, is_approved=False, break_glass=asked.get("break_glass", False))
        document = with_rule(live.document, scope, after)
        _check(document, scope)
        summary = _summary(scope, before, after)
        release = released(command, document, live, summary, revision, is_break_glass=is_break_glass)
        return Change(
            object=release,
            revision=revision,
            before={"version": live.version, "settings": before},
            after={"version": str(release.version), "settings": after},
        )

    with command.noted():
        command.check()
        if not asked.get("ahead"):
            checks.require_known_operation(environment, scope.operation, command.now)
        impact = impact_of(environment, scope, now=command.now)
        return execute(command, write, recall=recalled, impact=impact)


def edited(document: Mapping[str, Any], scope: Scope, settings: Mapping[str, object]) -> tuple[dict[str, Any], str]:
    """The document with these settings in the rule of exactly this scope, as an edit would, and what changes in words.

    Raises CommandRejected (400) by setting.
    """
    checks.raise_for_errors(_faults(settings))
    before = settings_of(document, scope)
    after = {name: _plain(name, value) for name, value in {**before, **settings}.items() if value is not None}
    new = with_rule(document, scope, after)
    _check(new, scope)
    return new, _summary(scope, before, after)


def settings_of(document: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """The settings that the rule of exactly this scope states; nothing where there is no such rule."""
    index = _index_of(document, scope)
    return {} if index is None else dict(document["rules"][index].get("settings", {}))


def with_rule(document: Mapping[str, Any], scope: Scope, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a policy document in which the rule of exactly this scope states these settings.

    Its id, place, fallbacks and models stay; a new rule comes last. A rule that states nothing is left out.
    """
    rules = [dict(rule) for rule in document.get("rules", [])]
    index = _index_of(document, scope)
    if index is None:
        rules.append({"id": _new_id(rules, scope), "scope": scope_document(scope), "settings": dict(settings)})
    elif settings or any(rules[index].get(name) is not None for name in ("fallbacks", "models")):
        rules[index]["settings"] = dict(settings)
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


def _faults(settings: Mapping[str, object]) -> dict[str, str]:
    """What is wrong with each setting, as the rules say it."""
    faults = {name: "is not a setting of the policy" for name in settings if name not in SETTINGS}
    said = {name: value for name, value in settings.items() if name in SETTINGS and value is not None}
    return faults | {name: fault for name, value in said.items() if (fault := fault_of(SETTINGS[name], value))}


def _plain(name: str, value: Any) -> Any:
    """A checked value as the document holds it: 3.0 retries are 3."""
    kind = SETTINGS[name].kind if name in SETTINGS else ""
    return int(value) if kind == "whole" else float(value) if kind == "number" else value


def _check(document: Mapping[str, Any], scope: Scope) -> None:
    """Raise Refused when agents would not take the document; the faults of this rule's settings by their names."""
    try:
        parse_policy(document)
    except PolicyInvalid as invalid:
        path = f"rules[{_index_of(document, scope)}].settings."
        fields = {problem.path.removeprefix(path): problem.message for problem in invalid.problems}
        raise CommandRejected("invalid", f"Change rejected: {invalid}.", fields=fields) from None


def _summary(scope: Scope, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`search_web: max_retries 2 → 5, jitter not set`: what changed, in the words of the rules."""
    changed = [name for name in SETTINGS if before.get(name) != after.get(name)]
    said = ", ".join(f"{name} {_word(before.get(name))} → {_word(after.get(name))}" for name in changed)
    return f"{scope.operation}{'' if scope.service == ANY else f' of {scope.service}'}: {said}"


def _word(value: object) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
