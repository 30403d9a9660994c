"""What the live policy says of one breaker or operation, in the words of the rules."""

from __future__ import annotations

from events.wording import count_text, share_text
from recovery_ops.control.templatetags.console import knob
from recovery_ops.rules.policy import Knobs, OperationPolicy, Policy
from recovery_ops.rules.scope import ANY, Place


def in_force(policy: Policy, operation: str, service: str = ANY) -> OperationPolicy:
    """What the policy alone says of an operation. Where no rule does, the agent's code may say otherwise."""
    place = Place(service="" if service == ANY else service, instance="", operation=operation, breaker=operation)
    return policy.for_operation(place)


def configuration_of(found: OperationPolicy) -> list[tuple[str, str]]:
    """When the breaker opens, what counts, and how it comes back."""
    knobs = found.knobs
    return [
        ("Opens", opens_at(knobs)),
        ("Counts", ", ".join(sorted(found.failures.open_breakers)) or "nothing"),
        ("Cooldown", f"{knob(knobs.wait_duration_in_open_s)} s"),
        ("Probes", f"{knobs.permitted_calls_in_half_open}, given up after {knob(knobs.max_wait_in_half_open_s)} s"),
        ("Fallback", ", then ".join(found.fallbacks) if found.fallbacks else "as the agent’s code says"),
        ("Set by", set_by(found)),
    ]


def set_by(found: OperationPolicy) -> str:
    """Who has the word: the rules of the policy that speak of it, or the code and the defaults."""
    if found.winning_rules:
        return f"policy {found.version}: {', '.join(found.winning_rules)}"
    return "code or default"


def opens_at(knobs: Knobs) -> str:
    """`5 failures in a row, or 50 % failed of 20 calls, from 10 calls on`; `never` where it has no limit."""
    limits = []
    if knobs.consecutive_failures:
        limits.append(f"{count_text(knobs.consecutive_failures, 'failure')} in a row")
    least = knobs.minimum_number_of_calls or 0
    unit = "calls" if knobs.sliding_window_type == "count_based" else "seconds"
    window = f"{knobs.sliding_window_size} {unit}, from {count_text(least, 'call')} on"
    if knobs.failure_rate_threshold:
        limits.append(f"{share_text(knobs.failure_rate_threshold)} failed of {window}")
    if knobs.slow_call_rate_threshold:
        slow = f"slower than {knob(knobs.slow_call_duration_s)} s"
        limits.append(f"{share_text(knobs.slow_call_rate_threshold)} {slow} of {window}")
    return ", or ".join(limits) or "never"
