"""The people and programs of these tests, and every action once, ready to be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recovery_ops.control.breakers.models.overrides import BreakerProbe, Override, Reset
from recovery_ops.control.breakers.services import overrides, resets
from recovery_ops.control.breakers.services.probes import probe
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.checks import name_to_confirm
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.models.audit import AuditEntry, AuditHead
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.core.permissions import Grants
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.services import policies
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.stories import NOW, Story, counted, heartbeat, moved

REASON = "the provider answers 529 to everyone"
SEARCH = Scope(operation="search_web")


def person(role: Role = Role.OPERATOR, name: str = "ana", environment: str = "dev") -> Actor:
    """Somebody with this role."""
    return Actor(name=name, kind="person", channel="web", may=Grants({environment: role}).may, user_id=None)


def asked(**changed: Any) -> dict[str, Any]:
    """What every action is given, with an operator who says why, and repeats the name where that is asked for."""
    whole: dict[str, Any] = {"by": person(), "environment": "dev", "reason": REASON, "now": NOW} | changed
    if "scope" in changed:
        whole.setdefault("confirm", name_to_confirm(whole["environment"], changed["scope"], whole["now"]))
    return whole


def trip(**changed: Any) -> CommandResult[Override]:
    """Trip search_web as an operator."""
    return overrides.trip(**asked(**{"scope": SEARCH} | changed))


def small_fleet(instances: int = 3, environment: str = "dev", **beat: Any) -> None:
    """Instances r-0, r-1 … of the service research, which have reported a closed breaker search_web."""
    story = Story(environment)
    for number in range(instances):
        story.tell(heartbeat(**beat), moved(State.CLOSED), counted(6), at=5, instance=f"r-{number}")
    story.store()


@dataclass(frozen=True)
class Deed:
    """One action in a world that is ready for it: `prepare` does what has to be there before."""

    verb: str
    permission: str
    run: Callable[..., CommandResult[Any]]
    prepare: Callable[[], Any] = lambda: None


def _held() -> str:
    return Override.objects.latest("starts_at").pk


DEEDS = {
    deed.verb: deed
    for deed in (
        Deed("breaker.trip", "trip", lambda **rest: overrides.trip(scope=SEARCH, **rest)),
        Deed("breaker.disable", "disable", lambda **rest: overrides.disable(scope=SEARCH, **rest)),
        Deed("breaker.observe", "observe", lambda **rest: overrides.observe(scope=SEARCH, **rest)),
        Deed("breaker.release", "release", lambda **rest: overrides.release(override_id=_held(), **rest), trip),
        Deed(
            "breaker.extend",
            "extend",
            lambda **rest: overrides.extend(override_id=_held(), expires_in_s=7200, **rest),
            trip,
        ),
        Deed("breaker.reset", "reset", lambda **rest: resets.reset(scope=SEARCH, **rest), trip),
        Deed("breaker.probe", "probe", lambda **rest: probe(scope=SEARCH, **rest)),
        Deed(
            "policy.edit",
            "edit_policy",
            lambda **rest: policies.set_operation_policy(operation="search_web", settings={"max_retries": 5}, **rest),
        ),
    )
}


def written() -> dict[str, Any]:
    """Everything that intent has written, row by row."""
    kinds = (Revision, Override, Reset, BreakerProbe, PolicyRelease, AuditEntry, AuditHead)
    return {kind.__name__: list(kind._default_manager.order_by("pk").values()) for kind in kinds}
