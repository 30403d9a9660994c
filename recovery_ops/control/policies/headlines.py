"""Headlines of policies and of one operation's policy."""

from __future__ import annotations

from events.wording import count_text
from recovery_ops.control.core.wording import verb_form
from recovery_ops.control.desired_state.document import LivePolicy
from recovery_ops.control.desired_state.propagation import Applying
from recovery_ops.rules.policy.model import OperationPolicy


def policies_headline(live: LivePolicy, applying: Applying, *, ruled: int, of: int) -> str:
    """Which policy is live, how far it has come, and how many operations it speaks of."""
    head = f"Policy {live.version} is live." if live.release is not None else "The default policy is live."
    spread = f"{applying.plain[:1].upper()}{applying.plain[1:]}." if live.release is not None and applying.total else ""
    rules = (
        f"{ruled} of {count_text(of, 'operation')} {verb_form(ruled, 'has', 'have')} rules of its own." if of else ""
    )
    return " ".join(
        part for part in (head, spread, rules.replace("its own", "their own") if ruled != 1 else rules) if part
    )


def policy_headline(found: OperationPolicy) -> str:
    """How one operation is retried."""
    settings = found.settings
    retries = count_text(found.max_retries(is_foreground=True), "retry", "retries")
    background = count_text(found.max_retries(is_foreground=False), "retry", "retries")
    delay = f"{settings.base_delay_s:g} s" if settings.base_delay_s is not None else "none"
    capacity = "are retried" if settings.retry_capacity_errors else "are not retried"
    return (
        f"{retries} in foreground, {background} in background, base delay {delay}. "
        f"Capacity errors {capacity} in foreground, never in background."
    )
