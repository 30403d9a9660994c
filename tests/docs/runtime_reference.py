"""The pages of the reference about the library: its public names, and its categories of failures."""

from __future__ import annotations

import inspect
import re

from recovery_ops import runtime
from recovery_ops.rules.enums import BREAKER_COUNTS, FAMILY_OF, VERDICT_OF, Category, Family
from recovery_ops.rules.policy.model import OperationPolicy
from recovery_ops.rules.policy.retry_table import Again
from recovery_ops.rules.user_messages import TELLINGS
from tests.docs.tables import table

_AGAIN = {Again.RETRY: "yes", Again.ONCE: "once, corrected", Again.NEVER: "no"}


def categories() -> str:
    """Recovery of each category."""
    policy = OperationPolicy()
    return table(
        ("category", "family", "retried in foreground", "in background", "counts for the breaker", "verdict"),
        (
            (
                f"`{one}`",
                FAMILY_OF[one].replace("_", " ") if FAMILY_OF[one] is not Family.NONE else "",
                _AGAIN[policy.again(one, None, is_foreground=True)],
                _AGAIN[policy.again(one, None, is_foreground=False)],
                "yes" if one in BREAKER_COUNTS else "",
                f"`{VERDICT_OF[one]}`" if one in VERDICT_OF else "",
            )
            for one in Category
        ),
    )


def user_messages() -> str:
    """Message to users of each category."""
    return table(
        ("category", "message to the user", "suggestion", "`can_retry`"),
        (
            (f"`{one}`", telling.message, telling.suggestion, "yes" if telling.can_retry else "no")
            for one, telling in TELLINGS.items()
        ),
    )


GROUPS = {
    "The client": "Recovery Run Limits Settings RetryRequest",
    "Guarded calls": "Guarded Attempt attempt Fallback Outcome Degraded Deadline CircuitBreaker",
    "Models": "ModelChain Model Needs",
    "Failures": "Failure Category Response classify retry_decision",
    "Tools": "Tool ToolRegistry ToolResult build_tool",
    "Several calls, workflows, people": "Part Workflow CheckpointStore Decision",
    "Errors": "RecoveryError RecoveryExhausted CallRejected CircuitOpen RetryAfterActive LoadShed RunsPaused"
    " DeadlineExceeded StopRun RunCancelled SchemaMismatch GatherBlocked WorkflowLocked StepChanged CheckpointError"
    " ConfigurationError",
}
"""The public names in the order of the reference."""


def public_names() -> str:
    """Every public name, as its docstring has it."""
    assert sorted(name for names in GROUPS.values() for name in names.split()) == sorted(runtime.__all__)
    return "".join(
        f"\n## {group}\n" + "".join(_entry(name) for name in names.split()) for group, names in GROUPS.items()
    )


METHODS = {
    "Recovery": "guard attempts call run ask escalate answer_to gather dispatch_failure reversal_token intervene"
    " input_share report snapshot takes_new_work wait_for_work stop_agent resume_agent flush undelivered close",
    "Run": "id turns turn cancel warnings withdrawn input_tokens output_tokens cost_usd asks_a_person may_compact"
    " compaction",
    "Guarded": "outcome",
    "Outcome": "is_degraded",
    "Deadline": "remaining_s has_passed",
    "CircuitBreaker": "call attempt state trip clear_override reset",
    "ModelChain": "ask failed answered",
    "Failure": "family verdict user_message suggestion can_retry",
    "Tool": "as_anthropic as_openai",
    "ToolRegistry": "add get names offered run_tool run_tools tool_uses_in resume file_marks",
    "ToolResult": "as_anthropic as_openai as_openai_item",
    "Part": "foundational supplementary",
    "Workflow": "step as_step steps resume_id resumed forget found",
    "CheckpointStore": "acquire renew release read write steps forget redeem",
}
"""The methods and properties that an agent uses; other public ones are for the runtime's own parts."""


def _entry(name: str) -> str:
    parts = (inspect.getdoc(getattr(runtime, name)) or "").split("\n\n")
    text = "\n\n".join(f"```pycon\n{part}\n```" if part.startswith(">>>") else part for part in parts)
    return f"\n### {name}\n\n{_linked(text)}\n{_methods(name)}"


def _linked(text: str) -> str:
    return re.sub(r"docs/guide/(([\w-]+)\.md(?:#[\w-]+)?)", r"[\2](../guide/\1)", text)


def _methods(name: str) -> str:
    owner = getattr(runtime, name)
    rows = []
    for method in METHODS.get(name, "").split():
        has_twin = hasattr(owner, f"{method}_async")
        words = (inspect.getdoc(inspect.getattr_static(owner, method)) or "").partition("\n\n")[0].replace("\n", " ")
        rows.append((f"`{method}`" + (f", `{method}_async`" if has_twin else ""), words))
    return "\n" + table(("method or property", "meaning"), rows) if rows else ""
