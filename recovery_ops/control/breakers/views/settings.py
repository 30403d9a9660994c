"""What the live policy says of one breaker or operation, in the words of the rules."""

from __future__ import annotations

from events.wording import count_text, share_text
from recovery_ops.control.templatetags.console import setting
from recovery_ops.rules.policy.model import OperationPolicy, Policy, Settings
from recovery_ops.rules.policy.scope import ANY, Place


def in_force(policy: Policy, operation: str, service: str = ANY) -> OperationPolicy:
    """What the policy alone says of an operation. Where no rule does, the agent's code may say otherwise."""
    place = Place(service="" if service == ANY else service, instance="", operation=operation, breaker=operation)
    return policy.for_operation(place)


def configuration_of(found: OperationPolicy) -> list[tuple[str, str]]:
    """When the breaker opens, what counts, and how it comes back."""
    settings = found.settings
    given_up = f"abandoned after {setting(settings.max_wait_in_half_open_s)} s, or the call deadline if longer"
    return [
        ("Opens at", opens_at(settings)),
        ("Counted failures", ", ".join(sorted(found.failures.open_breakers)) or "none"),
        ("Cooldown", f"{setting(settings.wait_duration_in_open_s)} s"),
        ("Probes", f"{settings.permitted_calls_in_half_open}, {given_up}"),
        ("Fallback", ", then ".join(found.fallbacks) if found.fallbacks else "set in agent code"),
        ("Source", set_by(found)),
    ]


def set_by(found: OperationPolicy) -> str:
    """Who has the word: the rules of the policy that speak of it, or the code and the defaults."""
    if found.winning_rules:
        return f"policy {found.version}: {', '.join(found.winning_rules)}"
    return "agent code or default"


def opens_at(settings: Settings) -> str:
    """`5 failures in a row, or 50 % failed of 20 calls, from 10 calls on`; `never` where it has no limit."""
    limits = []
    if settings.consecutive_failures:
        limits.append(f"{count_text(settings.consecutive_failures, 'failure')} in a row")
    least = settings.minimum_number_of_calls or 0
    unit = "calls" if settings.sliding_window_type == "count_based" else "seconds"
    window = f"{settings.sliding_window_size} {unit}, minimum {count_text(least, 'call')}"
    if settings.failure_rate_threshold:
        limits.append(f"{share_text(settings.failure_rate_threshold)} failed of {window}")
    if settings.slow_call_rate_threshold:
        slow = f"slower than {setting(settings.slow_call_duration_s)} s"
        limits.append(f"{share_text(settings.slow_call_rate_threshold)} {slow} of {window}")
    return ", or ".join(limits) or "never"
