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
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.bases import ENVIRONMENT_CHARS, NAME_CHARS, REASON_CHARS
from recovery_ops.control.core.production import is_production
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.rules.policy.scope import ANY, Place, Scope

LEAST_REASON_CHARS = 10
KEY_CHARS = 64
DEFAULT_EXPIRY_S = 3600.0
LEAST_EXPIRY_S = 60.0
LONGEST_EXPIRY_S = 24 * 3600.0
LONGEST_EXPIRY_ADMIN_S = 30 * 24 * 3600.0
LATEST_START_S = 30 * 24 * 3600.0
FEW = 10
"""An override of more breakers than this requires a fresh sign-in, as does one of all breakers."""
_LATELY = timedelta(days=7)
_WHOLE_SECONDS_S = 1.0
_MOST_SHOWN_S = 1e15


def normalize_reason(reason: str) -> str:
    """A reason as stored: without surrounding blanks, line ends as one character."""
    return "\n".join(reason.strip().splitlines())


def reason_error(reason: str, *, is_needed: bool = True) -> str:
    """Fault of a reason, in words; empty without one. A reason that is not needed may be short, or missing."""
    if is_needed and len(reason) < LEAST_REASON_CHARS:
        return f"has {len(reason)} characters; use at least {LEAST_REASON_CHARS}"
    if len(reason) > REASON_CHARS:
        return f"has {len(reason)} characters; use at most {REASON_CHARS}"
    return "" if all(one.isprintable() or one in "\n\t" for one in reason) else "has unprintable characters"


def expiry_error(expires_in_s: object, by: Actor, environment: str, *, begins_in_s: float = 0.0) -> str:
    """Fault of an override's duration; empty without one. The table of roles lists the permission for more than 24 h.

    The duration counts from now; a scheduled override that starts in `begins_in_s` may be that much longer.
    """
    if isinstance(expires_in_s, bool) or not isinstance(expires_in_s, int | float):
        return "must be a number of seconds"
    if not expires_in_s >= LEAST_EXPIRY_S:  # neither is NaN
        return f"is {_seconds_text(expires_in_s)} seconds; use at least {LEAST_EXPIRY_S:.0f}"
    since = " after its start" if begins_in_s else ""
    if expires_in_s > LONGEST_EXPIRY_ADMIN_S + begins_in_s:
        return f"is {_seconds_text(expires_in_s)} seconds; use at most {LONGEST_EXPIRY_ADMIN_S:.0f} (30 days){since}"
    if expires_in_s > LONGEST_EXPIRY_S + begins_in_s and not by.may("override_for_long", environment):
        most = f"{LONGEST_EXPIRY_S:.0f} (24 h){since}"
        return f"is {_seconds_text(expires_in_s)} seconds; use at most {most}. An admin can set up to 30 days"
    return ""


def has_duration(after: Mapping[str, Any] | None, expires_in_s: float, *, since: datetime | None = None) -> bool:
    """Whether what the audit log keeps lasts `expires_in_s`, from its beginning or `since`. It keeps whole seconds."""
    told = after or {}
    if "starts_at" not in told or "expires_at" not in told:
        return False
    began = since or datetime.fromisoformat(told["starts_at"])
    lasts_s = (datetime.fromisoformat(told["expires_at"]) - began).total_seconds()
    return abs(lasts_s - expires_in_s) <= _WHOLE_SECONDS_S


def start_error(starts_in_s: object) -> str:
    """Fault of an override's start, in seconds from now; empty without one."""
    if isinstance(starts_in_s, bool) or not isinstance(starts_in_s, int | float):
        return "must be a number of seconds"
    if not 0 <= starts_in_s <= LATEST_START_S:  # neither is NaN
        return f"is {_seconds_text(starts_in_s)} seconds; use 0 to {LATEST_START_S:.0f} (30 days)"
    return ""


def _seconds_text(seconds: float) -> str:
    """Seconds as given; a number that no float can hold is cut."""
    return f"{max(-_MOST_SHOWN_S, min(seconds, _MOST_SHOWN_S)):g}"


def short_time(at: datetime, now: datetime) -> str:
    """A moment in a sentence about overrides, with the day where it is not today's."""
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%-d %b %H:%M:%S} UTC"


def name_to_confirm(environment: str, scope: Scope, now: datetime | None = None) -> str:
    """Name that a user must type to confirm an override of this scope; empty if the impact is small.

    Required in production, and elsewhere for every breaker of every instance. For every breaker the name is that of
    the environment: a star is typed too easily.
    """
    is_every = is_every_breaker(environment, scope.operation)
    if is_production(environment):
        return environment if is_every else scope.operation
    return environment if is_every and is_everybody(environment, scope, now) else ""


def is_everybody(environment: str, scope: Scope, now: datetime | None = None) -> bool:
    """Whether the scope covers every service, instance and group, by its words or by what its patterns match."""
    parts = [part for part in (scope.service, scope.instance, scope.group) if not is_any(part)]
    if not parts or not all(ANY in part for part in parts):
        return not parts
    known = fleet(environment, now=now or timezone.now())
    reached = [scope.reaches(service=one.service, instance=one.instance, group=one.group) for one in known]
    return bool(reached) and all(reached)


def is_every_breaker(environment: str, pattern: str) -> bool:
    """Whether the pattern matches every name, or all of several known breakers."""
    return is_any(pattern) or (
        ANY in pattern and 1 < len(matching_breakers(environment, pattern)) == _count(environment)
    )


def is_many(environment: str, pattern: str) -> bool:
    """Whether the pattern matches every breaker, or more than `FEW`."""
    return is_every_breaker(environment, pattern) or len(matching_breakers(environment, pattern)) > FEW


def matching_breakers(environment: str, pattern: str) -> list[str]:
    """Names of known breakers that match a pattern; empty for a plain name."""
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
    """Whether the pattern matches every name: `*` and its equals. Older agents read `?` as any letter."""
    return ANY in pattern and not pattern.strip("*?")


def confirmation_error(name: str, asked: Mapping[str, Any], *, is_part: bool = False) -> str:
    """Fault of a confirmation that must repeat `name`; empty without one, and for a dry run."""
    if not name or asked.get("dry_run") or asked.get("confirm") == name:
        return ""
    return f"must repeat {name}: this {'is production' if is_part else 'reaches every instance'}"


def scope_errors(scope: Scope) -> dict[str, str]:
    """Fault of each part of a scope, by name."""
    parts = {"service": scope.service, "operation": scope.operation, "instance": scope.instance, "group": scope.group}
    return {name: fault for name, part in parts.items() if (fault := _fault_of_name(part, NAME_CHARS))}


def environment_error(environment: str) -> str:
    """Fault of an environment's name; empty without one."""
    return _fault_of_name(environment, ENVIRONMENT_CHARS)


def key_error(key: str | None) -> str:
    """Fault of an idempotency key; empty without one."""
    return "" if key is None else _fault_of_name(key, KEY_CHARS)


def derive_part_key(key: str | None, *part: object) -> str | None:
    """The idempotency key of one part of a bulk request: made of the whole key of the request and what the part is."""
    return None if key is None else sha256(repr((key, *part)).encode("utf-8", "surrogatepass")).hexdigest()


def raise_for_errors(fields: dict[str, str]) -> None:
    """Raise CommandRejected (400) when a field has a fault."""
    faults = {name: fault for name, fault in fields.items() if fault}
    if faults:
        detail = "; ".join(f"{name} {fault}" for name, fault in faults.items())
        raise CommandRejected("invalid", f"Change rejected: {detail}.", fields=faults)


def require_known_breaker(environment: str, scope: Scope) -> None:
    """Raise CommandRejected (404) when no instance in the scope has reported such a breaker or operation."""
    if is_reported(environment, scope):
        return
    if not is_reported(environment, Scope(operation=scope.operation)):
        raise CommandRejected(
            "unknown_breaker",
            f"No instance in {environment} has reported a breaker {scope.operation}. Check the name, or set `ahead` "
            "for a breaker that does not exist yet.",
            status=NOT_FOUND,
            fields={"operation": "is unknown"},
        )
    raise CommandRejected(
        "unknown_scope",
        f"{environment} has the breaker {scope.operation}, but no instance in this scope has reported it. Check "
        "service, instance and group, or set `ahead` for an instance that does not exist yet.",
        status=NOT_FOUND,
        fields={name: "is unknown" for name in ("service", "instance", "group") if getattr(scope, name) != ANY},
    )


def require_known_service(environment: str, service: str) -> None:
    """Raise CommandRejected (404) when no instance of this service has ever reported."""
    if not Agent.objects.filter(environment=environment, service=service).exists():
        detail = f"No instance in {environment} has reported a service {service}. Check the name."
        raise CommandRejected("unknown_service", detail, status=NOT_FOUND, fields={"service": "is unknown"})


def require_known_operation(environment: str, operation: str, now: datetime) -> None:
    """Raise CommandRejected (404) when no instance has reported the operation by breaker, declaration or call."""
    since = int((now - _LATELY).timestamp()) // 60
    counted = MinuteSum.objects.filter(_like("operation", operation), environment=environment, minute__gte=since)
    scope = Scope(operation=operation)
    if is_reported(environment, scope):
        return
    names = counted.order_by("operation").values_list("operation", flat=True).distinct()
    if any(scope.holds(Place(service="", instance="", operation=name)) for name in names):
        return
    named = "that matches" if ANY in operation else "named"
    raise CommandRejected(
        "unknown_operation",
        f"No instance in {environment} has reported an operation {named} {operation}. Check the name, or set `ahead` "
        "for an operation that does not exist yet.",
        status=NOT_FOUND,
        fields={"operation": "is unknown"},
    )


def patterns_overlap(one: str, other: str) -> bool:
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
        return "must be a name"
    if len(name) > longest:
        return f"has {len(name)} characters; use at most {longest}"
    return "" if name.isprintable() else "has unprintable characters"
