"""The desired state to and from JSON: the same document for the server that states it and the agent that obeys it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from recovery_ops.rules.desired_state import (
    DECISIONS,
    PAUSE,
    STOP,
    Abort,
    Answer,
    Desired,
    Override,
    Pause,
    Probe,
    Reset,
    Retry,
    Shed,
)
from recovery_ops.rules.enums import OVERRIDES, Importance
from recovery_ops.rules.policy.model import Policy, PolicyInvalid, parse_policy
from recovery_ops.rules.policy.scope import ANY, Scope
from recovery_ops.rules.policy.settings import Problem
from recovery_ops.wire.events import state_of
from recovery_ops.wire.names import SCHEMA_VERSION


class DesiredInvalid(Exception):
    """A document that is not a desired state we can obey; `problems` names each fault with the path to it."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{problem.path}: {problem.message}" for problem in problems))


def desired_document(
    *,
    environment: str,
    revision: int,
    policy: Mapping[str, Any],
    policy_version: str,
    overrides: list[Override],
    resets: list[Reset],
    issued_at: float,
    answers: Sequence[Answer] = (),
    aborts: Sequence[Abort] = (),
    pauses: Sequence[Pause] = (),
    retries: Sequence[Retry] = (),
    probes: Iterable[Probe] = (),
    shed: Shed | None = None,
    sheds_ahead: Sequence[Shed] = (),
) -> dict[str, Any]:
    """The document an agent receives. Without answers, aborts, pauses, retries, probes or shed load it has no such key.

    `config_hash` covers what is to be obeyed, so not `issued_at`: two documents with one hash ask for the same.
    """
    content: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "environment": environment,
        "revision": revision,
        "policy": dict(policy) | {"version": policy_version},
        "overrides": [override_document(one) for one in overrides],
        "resets": [
            {"scope": scope_document(one.scope), "reset_at": one.revision, "ramp_s": one.ramp_s} for one in resets
        ],
    }
    if answers:
        content["answers"] = [asdict(one) for one in answers]
    if aborts:
        content["aborts"] = [asdict(one) for one in aborts]
    if pauses:
        content["pauses"] = [_pause_document(one) for one in pauses]
    if retries:
        content["retries"] = [asdict(one) for one in retries]
    probing = [{"scope": scope_document(one.scope), "probe_at": one.revision} for one in probes]
    content |= {"probes": probing} if probing else {}
    if shed is not None:
        content["shed"] = _shed_document(shed)
    if sheds_ahead:
        content["sheds_ahead"] = [_shed_document(one) for one in sheds_ahead]
    return content | {"config_hash": config_hash(content), "issued_at": issued_at}


def config_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of a document without `config_hash` and `issued_at`."""
    what = {name: value for name, value in content.items() if name not in ("config_hash", "issued_at")}
    text = json.dumps(what, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    import hashlib  # OpenSSL: only who is sent a document needs it

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _pause_document(one: Pause) -> dict[str, Any]:
    """One pause; a version that does not know stops reads one as a pause, so no new runs begin there either."""
    stated = asdict(one)
    if not one.is_stop:
        del stated["kind"]
    return stated


def _shed_document(one: Shed) -> dict[str, Any]:
    return asdict(one) | {"least": one.least.value}


def override_document(one: Override) -> dict[str, Any]:
    """One override as the document states it."""
    return {
        "id": one.id,
        "mode": one.mode.value,
        "scope": scope_document(one.scope),
        "reason": one.reason,
        "by": one.by,
        "starts_at": one.starts_at,
        "expires_at": one.expires_at,
        "revision": one.revision,
        "ramp_s": one.ramp_s,
    }


def scope_document(scope: Scope) -> dict[str, str]:
    """The parts of a scope that narrow it."""
    return {part.name: value for part in fields(Scope) if (value := getattr(scope, part.name)) != ANY}


def parse_desired(document: object, *, known: tuple[object, Policy] | None = None) -> Desired:
    """The desired state that a document states.

    `known` is a policy as a document stated it and as it was read: stated so again, it is not read again. Most
    documents only bring an override, which should not wait for a long policy to be checked once more.

    Raises DesiredInvalid naming every problem; whoever gets it keeps what it had. Keys that are not known are
    ignored; what must not be ignored is listed in `requires` (of the document or of its policy).
    """
    if not isinstance(document, Mapping):
        raise DesiredInvalid([Problem("", "a desired state is a JSON object")])
    problems: list[Problem] = []
    schema = document.get("schema_version")
    if not isinstance(schema, int) or schema < 1:
        problems.append(Problem("schema_version", "is missing"))
    needed = document.get("requires") or []
    if needed:
        problems.append(Problem("requires", f"asks for what this version does not know: {needed}"))
    revision = document.get("revision")
    if not isinstance(revision, int) or isinstance(revision, bool) or revision < 0:
        problems.append(Problem("revision", "is a whole number from 0"))
        revision = 0
    policy_part = document.get("policy", {})
    policy = None
    try:
        policy = known[1] if known is not None and known[0] == policy_part else parse_policy(policy_part)
    except PolicyInvalid as error:
        problems.extend(Problem(f"policy.{one.path}", one.message) for one in error.problems)
    lists = {name: _each(document, name, read, problems) for name, read in _LISTS.items()}
    said = document.get("shed")
    shed = next(iter(_each({"shed": [said]}, "shed", _shed, problems)), None) if said is not None else None
    if problems or policy is None:
        raise DesiredInvalid(problems)
    return Desired(
        revision=revision,
        config_hash=str(document.get("config_hash") or config_hash(document)),
        environment=str(document.get("environment", "")),
        issued_at=_number(document.get("issued_at", 0.0)),
        policy=policy,
        shed=shed,
        **lists,
    )


def _each(document: Mapping[str, Any], name: str, read: Any, problems: list[Problem]) -> tuple[Any, ...]:
    """The items of a list that is understood, less those that say nothing to this version."""
    given = document.get(name, [])
    if not isinstance(given, list):
        problems.append(Problem(name, "is a list"))
        return ()
    found = []
    for index, one in enumerate(given):
        try:
            found.append(read(one))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(Problem(f"{name}[{index}]", f"is not understood: {error!r}"))
    return tuple(one for one in found if one is not None)


def _override(one: Mapping[str, Any]) -> Override:
    mode = state_of(one["mode"])
    if mode not in OVERRIDES:
        raise ValueError(f"{mode.value} is not an override")
    return Override(
        id=str(one["id"]),
        mode=mode,
        scope=parse_scope(one.get("scope", {})),
        reason=str(one.get("reason", "")),
        by=str(one.get("by", "")),
        starts_at=_number(one.get("starts_at", 0.0)),
        expires_at=_number(one["expires_at"]),
        revision=int(one.get("revision", 0)),
        ramp_s=_number(one.get("ramp_s", 0.0)),
    )


def _shed(one: Mapping[str, Any]) -> Shed:
    return Shed(
        id=str(one["id"]),
        least=Importance(one["least"]),
        reason=str(one.get("reason", "")),
        by=str(one.get("by", "")),
        starts_at=_number(one.get("starts_at", 0.0)),
        expires_at=_number(one["expires_at"]),
        revision=int(one.get("revision", 0)),
    )


def _answer(one: Mapping[str, Any]) -> Answer | None:
    """None for a decision that this version does not know: whoever waits for it takes the default."""
    decision = str(one["decision"])
    if decision not in DECISIONS:
        return None
    return Answer(
        ticket=str(one["ticket"]),
        decision=decision,
        text=str(one.get("text", "")),
        by=str(one.get("by", "")),
        reason=str(one.get("reason", "")),
        service=str(one.get("service", ANY)),
        revision=int(one.get("revision", 0)),
    )


def _abort(one: Mapping[str, Any]) -> Abort:
    return Abort(
        run=str(one["run"]),
        by=str(one.get("by", "")),
        reason=str(one.get("reason", "")),
        service=str(one.get("service", ANY)),
        revision=int(one.get("revision", 0)),
    )


def _pause(one: Mapping[str, Any]) -> Pause:
    ends = one.get("expires_at")
    return Pause(
        id=str(one["id"]),
        service=str(one["service"]),
        instance=str(one.get("instance", "")),
        by=str(one.get("by", "")),
        reason=str(one.get("reason", "")),
        expires_at=None if ends is None else _number(ends),
        revision=int(one.get("revision", 0)),
        kind=STOP if one.get("kind") == STOP else PAUSE,
    )


def _retry(one: Mapping[str, Any]) -> Retry:
    return Retry(
        id=str(one["id"]),
        run=str(one["run"]),
        service=str(one["service"]),
        instance=str(one["instance"]),
        by=str(one.get("by", "")),
        reason=str(one.get("reason", "")),
        input=str(one.get("input", "")),
        revision=int(one.get("revision", 0)),
    )


def _reset(one: Mapping[str, Any]) -> Reset:
    return Reset(
        scope=parse_scope(one.get("scope", {})), revision=int(one["reset_at"]), ramp_s=_number(one.get("ramp_s", 0.0))
    )


def _probe(one: Mapping[str, Any]) -> Probe:
    return Probe(scope=parse_scope(one.get("scope", {})), revision=int(one["probe_at"]))


_LISTS = {
    "overrides": _override,
    "resets": _reset,
    "probes": _probe,
    "answers": _answer,
    "aborts": _abort,
    "pauses": _pause,
    "retries": _retry,
    "sheds_ahead": _shed,
}
"""What the document lists, by the names of its keys and of what is made of them."""


def parse_scope(given: Mapping[str, Any]) -> Scope:
    """A scope from its JSON object; parts that are not given stand for anything."""
    known = {part.name for part in fields(Scope)}
    unknown = [name for name in given if name not in known]
    if unknown:
        # A part that an older agent does not know would make the scope wider than meant.
        raise ValueError(f"unknown parts of a scope: {', '.join(unknown)}")
    return Scope(**{name: str(value) for name, value in given.items()})


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("a number must be finite")
    return number
