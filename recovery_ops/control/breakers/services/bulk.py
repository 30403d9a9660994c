"""One verb for many breakers, each by itself: what one is refused stops no other. A reset of many is one ramp."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recovery_ops.control.breakers.services.overrides import disable, extend, observe, release, resting_id, trip
from recovery_ops.control.breakers.services.probes import probe
from recovery_ops.control.breakers.services.resets import check_reset, is_used, names_begun, reset, reset_many
from recovery_ops.control.core import checks
from recovery_ops.control.core.commands import CONFIRM, SIGN_IN_AGAIN, CommandContext, CommandResult, require_permission
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, CommandRejected
from recovery_ops.rules.policy.scope import Scope


def _release(*, scope: Scope, **asked: Any) -> CommandResult[Any]:
    return release(override_id=_resting(scope, "release", asked), **asked)


def _extend(*, scope: Scope, **asked: Any) -> CommandResult[Any]:
    return extend(override_id=_resting(scope, "extend", asked), **asked)


def _resting(scope: Scope, permission: str, asked: Mapping[str, Any]) -> str:
    require_permission(asked["by"], permission, asked["environment"], scope.group)  # what rests is not for everyone
    return resting_id(asked["environment"], scope)


VERBS: Mapping[str, Callable[..., CommandResult[Any]]] = {
    "trip": trip,
    "disable": disable,
    "observe": observe,
    "release": _release,
    "extend": _extend,
    "reset": reset,
    "probe": probe,
}
IMPOSING = ("trip", "disable", "observe")
_TAKES = {
    "extend": ("expires_in_s",),
    **dict.fromkeys(IMPOSING, ("expires_in_s", "starts_in_s", "ahead")),
}
MOST = 200

_NO_PART = "The breaker was not part of the first request with this idempotency key. Use a new key."


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one breaker: what was done, or why not."""

    name: str
    done: CommandResult[Any] | None = None
    rejection: CommandRejected | None = None


def each(
    verb: str, names: Iterable[str], asked: CommandContext, *, where: Mapping[str, str], **more: Any
) -> list[Result]:
    """Carry `verb` out for each name, in its own transaction and under a key of its own; `where` narrows the scope.

    `more` is what only some verbs are given, and is left out for the others. Where one of the names would have to be
    confirmed, `confirm` repeats the environment's name once for all. Raises CommandRejected (400), and nothing
    is done, where it does not, or where `extend` is not told for how long.
    """
    rest = {name: more[name] for name in _TAKES.get(verb, ()) if name in more}
    asked_for = list(dict.fromkeys(names))
    asked = {**asked, "objects": len(asked_for)}
    if verb in (*IMPOSING, "extend") and len(asked_for) > checks.FEW and not asked["by"].is_fresh:
        raise CommandRejected(SIGN_IN_AGAIN, CONFIRM, status=FORBIDDEN)
    scopes = {name: Scope(operation=name, **where) for name in asked_for}
    here, now = asked["environment"], asked.get("now")
    to_confirm = {name: checks.name_to_confirm(here, one, now) for name, one in scopes.items()}
    is_asked = verb in IMPOSING and any(to_confirm.values())
    checks.raise_for_errors(
        {
            "confirm": checks.confirmation_error(
                asked["environment"] if is_asked else "",
                {**asked, **more},
                is_part=not all(checks.is_everybody(here, one, now) for one in scopes.values()),
            ),
            "expires_in_s": "is missing" if verb == "extend" and "expires_in_s" not in rest else "",
        }
    )
    if verb == "reset" and len(asked_for) > 1:
        found = _ramped(asked_for, asked, where)
        if found is not None:
            return found
    results = []
    for name in asked_for:
        one: dict[str, Any] = {**asked, **rest, "key": checks.derive_part_key(asked.get("key"), verb, name)}
        if verb in IMPOSING:
            one["confirm"] = to_confirm[name]
        try:
            done = VERBS[verb](**one, scope=scopes[name])
        except CommandRejected as rejection:
            results.append(Result(name=name, rejection=rejection))
        else:
            results.append(Result(name=name, done=done))
    return results


def _ramped(names: Sequence[str], asked: CommandContext, where: Mapping[str, str]) -> list[Result] | None:
    """The results of one ramp over all that may be reset; None where there is nothing to ramp.

    Who asks again, because the answer was lost, is answered as before: their own reset does not make them late, and
    what was reset one by one is not ramped because more has opened since.
    """
    if any(is_used(asked["environment"], checks.derive_part_key(asked.get("key"), "reset", name)) for name in names):
        return None
    refused: dict[str, CommandRejected] = {}
    once: CommandContext = {**asked, "key": checks.derive_part_key(asked.get("key"), "reset", " ".join(names))}
    keyless: CommandContext = {**asked, "key": None}
    begun = names_begun(asked["environment"], once["key"])
    for name in names:
        if begun is not None and name in begun:
            continue
        try:
            check_reset(Scope(operation=name, **where), **keyless)
            if begun is not None:
                raise CommandRejected("not_reset", _NO_PART, status=CONFLICT, fields={"key": "was used before"})
        except CommandRejected as rejection:
            refused[name] = rejection
    able = [name for name in names if name not in refused]
    try:
        done = reset_many(able, Scope(**where), **once) if able else None
    except CommandRejected as rejection:
        return [Result(name=name, rejection=refused.get(name, rejection)) for name in names]
    if done is None:
        return None
    return [
        Result(name=name, rejection=refused[name]) if name in refused else Result(name=name, done=done)
        for name in names
    ]
