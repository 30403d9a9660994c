"""What is wrong with what somebody asks for, before anything is written: every fault at once, by the field's name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from events.models import Agent, BreakerState, MinuteSum, SettingsInForce
from events.queries import fleet
from recovery_ops.control.actors import Actor
from recovery_ops.control.models import ENVIRONMENT_CHARS, NAME_CHARS, REASON_CHARS
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.rules.scope import ANY, Place, Scope

LEAST_REASON_CHARS = 10
KEY_CHARS = 64
DEFAULT_EXPIRY_S = 3600.0
LEAST_EXPIRY_S = 60.0
LONGEST_EXPIRY_S = 24 * 3600.0
LONGEST_EXPIRY_ADMIN_S = 30 * 24 * 3600.0
LATEST_START_S = 30 * 24 * 3600.0
FEW = 10
"""Ruling more breakers than these at once asks for a fresh sign-in, as ruling all of them does."""
_PRODUCTION = "prod"
"""What the name of an environment begins with where a slip is felt."""
_LATELY = timedelta(days=7)
_WHOLE_SECONDS_S = 1.0


def said(reason: str) -> str:
    """A reason as it is kept: without blanks around it, line ends as one character."""
    return "\n".join(reason.strip().splitlines())


def fault_of_reason(reason: str) -> str:
    """What is wrong with a reason, in words; empty when nothing is."""
    if len(reason) < LEAST_REASON_CHARS:
        return f"has to say why in at least {LEAST_REASON_CHARS} characters"
    if len(reason) > REASON_CHARS:
        return f"has {len(reason)} characters; {REASON_CHARS} is the most"
    return "" if all(one.isprintable() or one in "\n\t" for one in reason) else "has characters that cannot be shown"


def fault_of_expiry(expires_in_s: object, by: Actor, environment: str, *, begins_in_s: float = 0.0) -> str:
    """What is wrong with how long an override is to last; who may go beyond 24 h stands in the table of roles.

    What is counted from now on, of one that begins only in `begins_in_s`, may be that much longer.
    """
    if isinstance(expires_in_s, bool) or not isinstance(expires_in_s, int | float):
        return "is a number of seconds"
    if not expires_in_s >= LEAST_EXPIRY_S:  # neither is NaN
        return f"is at least {LEAST_EXPIRY_S:.0f} seconds"
    since = " after it begins" if begins_in_s else ""
    if expires_in_s > LONGEST_EXPIRY_ADMIN_S + begins_in_s:
        return f"is at most {LONGEST_EXPIRY_ADMIN_S:.0f} seconds (30 days){since}"
    if expires_in_s > LONGEST_EXPIRY_S + begins_in_s and not by.may("override_for_long", environment):
        return f"is at most {LONGEST_EXPIRY_S:.0f} seconds (24 h){since}; an admin may set up to 30 days"
    return ""


def is_length_of(after: Mapping[str, Any] | None, expires_in_s: float, *, since: datetime | None = None) -> bool:
    """Whether what the audit log keeps lasts `expires_in_s`, from its beginning or `since`. It keeps whole seconds."""
    told = after or {}
    if "starts_at" not in told or "expires_at" not in told:
        return False
    began = since or datetime.fromisoformat(told["starts_at"])
    lasts_s = (datetime.fromisoformat(told["expires_at"]) - began).total_seconds()
    return abs(lasts_s - expires_in_s) <= _WHOLE_SECONDS_S


def fault_of_start(starts_in_s: object) -> str:
    """What is wrong with when an override is to begin; 0 is now."""
    if isinstance(starts_in_s, bool) or not isinstance(starts_in_s, int | float):
        return "is a number of seconds"
    if not 0 <= starts_in_s <= LATEST_START_S:  # neither is NaN
        return f"is from 0 to {LATEST_START_S:.0f} seconds (30 days)"
    return ""


def moment_of(at: datetime, now: datetime) -> str:
    """A moment in a sentence about overrides, with the day where it is not today's."""
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%-d %b %H:%M:%S} UTC"


def name_to_confirm(environment: str, scope: Scope, now: datetime | None = None) -> str:
    """What has to be repeated before calls are held in this scope: in production, and for every breaker of everybody
    elsewhere; empty where a slip harms few.

    A star would be typed without a thought: for every breaker it is the environment.
    """
    is_every = is_every_breaker(environment, scope.operation)
    if is_production(environment):
        return environment if is_every else scope.operation
    return environment if is_every and is_everybody(environment, scope, now) else ""


def is_production(environment: str) -> bool:
    """Whether a slip is felt there, by its name."""
    return environment.startswith(_PRODUCTION)


def is_everybody(environment: str, scope: Scope, now: datetime | None = None) -> bool:
    """Whether no service, instance or group is left out: by its words, or because its patterns fit all that report."""
    parts = [part for part in (scope.service, scope.instance, scope.group) if not is_any(part)]
    if not parts or not all(ANY in part for part in parts):
        return not parts
    known = fleet(environment, now=now or timezone.now())
    reached = [scope.reaches(service=one.service, instance=one.instance, group=one.group) for one in known]
    return bool(reached) and all(reached)


def is_every_breaker(environment: str, pattern: str) -> bool:
    """Whether it stands for every name, or is a pattern that none of several breakers there escapes."""
    return is_any(pattern) or (ANY in pattern and 1 < len(fitting(environment, pattern)) == _count(environment))


def is_many(environment: str, pattern: str) -> bool:
    """Whether it rules every breaker, or more than `FEW`: who does that has shown lately who they are."""
    return is_every_breaker(environment, pattern) or len(fitting(environment, pattern)) > FEW


def fitting(environment: str, pattern: str) -> list[str]:
    """The names of breakers there that a pattern fits; for a name itself none is looked for."""
    if ANY not in pattern:
        return []
    named = _names(environment).filter(_like("breaker", pattern))
    scope = Scope(operation=pattern)
    return [name for name in named if scope.holds(Place(service="", instance="", operation=name))]


def _names(environment: str) -> QuerySet[BreakerState, str]:
    known = BreakerState.objects.filter(environment=environment)
    return known.order_by("breaker").values_list("breaker", flat=True).distinct()


def _count(environment: str) -> int:
    return _names(environment).count()


def is_any(pattern: str) -> bool:
    """Whether it stands for every name: `*`, and what comes to the same. Older agents take `?` for any letter."""
    return ANY in pattern and not pattern.strip("*?")


def fault_of_confirmation(name: str, asked: Mapping[str, Any], *, is_part: bool = False) -> str:
    """What is wrong with a confirmation that has to repeat `name`. Nothing is confirmed where nothing is written."""
    if not name or asked.get("dry_run") or asked.get("confirm") == name:
        return ""
    return f"has to repeat {name}: this {'is production' if is_part else 'reaches everybody'}"


def faults_of_scope(scope: Scope) -> dict[str, str]:
    """What is wrong with each part of a scope."""
    parts = {"service": scope.service, "operation": scope.operation, "instance": scope.instance, "group": scope.group}
    return {name: fault for name, part in parts.items() if (fault := _fault_of_name(part, NAME_CHARS))}


def fault_of_environment(environment: str) -> str:
    """What is wrong with an environment's name."""
    return _fault_of_name(environment, ENVIRONMENT_CHARS)


def fault_of_key(key: str | None) -> str:
    """What is wrong with an idempotency key."""
    return "" if key is None else _fault_of_name(key, KEY_CHARS)


def key_of_part(key: str | None, *part: object) -> str | None:
    """The idempotency key of one part of a bulk request: made of the whole key of the request and what the part is."""
    return None if key is None else sha256(repr((key, *part)).encode("utf-8", "surrogatepass")).hexdigest()


def refuse(fields: dict[str, str]) -> None:
    """Raise Refused (400) when a field has a fault."""
    faults = {name: fault for name, fault in fields.items() if fault}
    if faults:
        detail = "; ".join(f"{name} {fault}" for name, fault in faults.items())
        raise Refused("invalid", f"Nothing was changed: {detail}.", fields=faults)


def require_known_breaker(environment: str, scope: Scope) -> None:
    """Raise Refused (404) when no instance in the scope ever reported such a breaker, or an operation behind one."""
    if is_reported(environment, scope):
        return
    if not is_reported(environment, Scope(operation=scope.operation)):
        raise Refused(
            "unknown_breaker",
            f"No instance in {environment} has ever reported a breaker called {scope.operation}. Check the name; to "
            "rule a breaker that does not exist yet, say so with `ahead`.",
            status=UNKNOWN,
            fields={"operation": "is not known"},
        )
    raise Refused(
        "unknown_scope",
        f"{scope.operation} is known in {environment}, but no instance in this scope has ever reported it. Check the "
        "service, instance and group; to rule an instance that does not exist yet, say so with `ahead`.",
        status=UNKNOWN,
        fields={name: "is not known" for name in ("service", "instance", "group") if getattr(scope, name) != ANY},
    )


def require_known_service(environment: str, service: str) -> None:
    """Raise Refused (404) when no instance of this service has ever reported."""
    if not Agent.objects.filter(environment=environment, service=service).exists():
        detail = f"No instance in {environment} has ever reported of a service called {service}. Check the name."
        raise Refused("unknown_service", detail, status=UNKNOWN, fields={"service": "is not known"})


def require_known_operation(environment: str, operation: str, now: datetime) -> None:
    """Raise Refused (404) when nobody has reported the operation: as a breaker or declared ever, or by calls lately."""
    since = int((now - _LATELY).timestamp()) // 60
    counted = MinuteSum.objects.filter(_like("operation", operation), environment=environment, minute__gte=since)
    scope = Scope(operation=operation)
    if is_reported(environment, scope):
        return
    names = counted.order_by("operation").values_list("operation", flat=True).distinct()
    if any(scope.holds(Place(service="", instance="", operation=name)) for name in names):
        return
    named = "that fits" if ANY in operation else "called"
    raise Refused(
        "unknown_operation",
        f"No instance in {environment} has reported an operation {named} {operation}. Check the name; to write a rule "
        "for one that does not exist yet, say so with `ahead`.",
        status=UNKNOWN,
        fields={"operation": "is not known"},
    )


def overlap(one: str, other: str) -> bool:
    """Whether two names, with or without `*`, may mean the same operation."""
    return any(
        Scope(operation=pattern).holds(Place(service="", instance="", operation=name))
        for pattern, name in ((one, other), (other, one))
    )


def is_reported(environment: str, scope: Scope) -> bool:
    """Whether an instance in the scope ever reported such a breaker, or an operation behind one."""
    # One after the other: the first has an index, and mostly suffices; the last know what was declared and not called.
    asked = [(kind, column) for kind in (BreakerState, SettingsInForce) for column in ("breaker", "operation")]
    for kind, column in asked:
        named = kind._default_manager.filter(
            _like(column, scope.operation),
            _like("agent__service", scope.service),
            _like("agent__instance", scope.instance),
            _like("agent__group", scope.group),
            environment=environment,
        ).values_list("agent__service", "agent__instance", "agent__group", "operation", "breaker")
        for service, instance, group, operation, breaker in named.iterator():
            place = Place(service=service, instance=instance, group=group, operation=operation, breaker=breaker)
            if scope.holds(place):
                return True
    return False


def _like(column: str, pattern: str) -> Q:
    """Rows that may fit a pattern: exactly those where it has no `*`, else those with what stands before it."""
    if ANY not in pattern:
        return Q(**{column: pattern})
    return Q(**{f"{column}__startswith": pattern.partition(ANY)[0]})


def _fault_of_name(name: object, longest: int) -> str:
    if not isinstance(name, str) or not name.strip():
        return "is a name"
    if len(name) > longest:
        return f"has {len(name)} characters; {longest} is the most"
    return "" if name.isprintable() else "has characters that cannot be shown"
