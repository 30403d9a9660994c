"""The parts of the guide that code knows best: tables out of the rules, and what the examples print.

A page marks each with `<!-- name -->` and `<!-- end -->`. A test holds the pages to them; to write them anew:

    PYTHONPATH=. .venv/bin/python -m tests.docs.generated
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from recovery_ops import runtime
from recovery_ops.rules.enums import BREAKER_COUNTS, FAMILY_OF, VERDICT_OF, Category, Family, Verdict
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, Play
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy
from recovery_ops.rules.policy.retry_table import Again
from recovery_ops.rules.policy.spend_settings import SPEND_SETTINGS, SpendCaps
from recovery_ops.rules.resilience.circuit_breaker import PROBE_WITHOUT_DEADLINE_S
from recovery_ops.rules.run_limits import GUARD_SETTINGS, GuardLimits
from recovery_ops.rules.user_messages import TELLINGS
from recovery_ops.runtime import errors as runtime_errors
from tests.support.processes import ROOT, clean_environment

GUIDE = ROOT / "docs" / "guide"
EXAMPLES = GUIDE / "examples"
MARKED = re.compile(r"(<!-- (?P<name>[\w ]+) -->\n)(?P<content>.*?)(<!-- end -->)", re.DOTALL)

_AGAIN = {Again.RETRY: "yes", Again.ONCE: "once, mended", Again.NEVER: "no"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def categories() -> str:
    """What the rules make of each category."""
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


def tellings() -> str:
    """What users are told."""
    return table(
        ("category", "what a user is told", "what to do", "`can_retry`"),
        (
            (f"`{one}`", telling.message, telling.suggestion, "yes" if telling.can_retry else "no")
            for one, telling in TELLINGS.items()
        ),
    )


def playbook() -> str:
    """What is done about each verdict."""
    sources = {verdict: [one for one, its in VERDICT_OF.items() if its is verdict] for verdict in Verdict}
    return table(
        ("verdict", "from", "what `dispatch_failure` does"),
        (
            (
                f"`{verdict}`",
                ", ".join(f"`{one}`" for one in sources[verdict]),
                _played(BUILT_IN_PLAYBOOK.plays[verdict]),
            )
            for verdict in Verdict
        ),
    )


def _played(play: Play) -> str:
    delays = ", ".join(f"{delay_s:g}" for delay_s in play.delays_s)
    queue = f", queue `{play.queue}`" if play.queue else ""
    return f"`{play.compensation}`" + (f", after {delays} s" if delays else "") + queue


def kinds() -> str:
    """How the kinds of operation differ."""
    return table(
        ("`kind`", "retries in foreground", "in background", "deadline of an attempt"),
        (
            (
                f"`{kind}`" if kind != "undeclared" else "a fallback that is a plain function",
                str(settings.max_retries or 0),
                str(settings.max_retries_background or 0),
                f"{settings.call_deadline_s:g} s" if settings.call_deadline_s else "none",
            )
            for kind, settings in BUILT_IN_DEFAULTS.items()
        ),
    )


def breaker() -> str:
    """When a breaker moves."""
    settings = FAIL_CLOSED
    rate = f"of the last {settings.sliding_window_size} calls, from {settings.minimum_number_of_calls} calls on"
    return table(
        ("a breaker", "by default"),
        (
            ("opens after this many failures in a row", f"{settings.consecutive_failures}"),
            (f"or at {settings.failure_rate_threshold:.0%} failures", rate),
            ("stays open for", f"{settings.wait_duration_in_open_s:g} s"),
            ("then lets through, to see", f"{settings.permitted_calls_in_half_open} call, which is never retried"),
            ("gives that call up after", _probe_wait(settings.max_wait_in_half_open_s)),
        ),
    )


def _probe_wait(longest_s: float | None) -> str:
    return f"{longest_s:g} s, or its own deadline if longer ({PROBE_WITHOUT_DEADLINE_S:g} s without one)"


def guards() -> str:
    """The guards of a run."""
    limits = GuardLimits()
    return table(
        ("name in the policy", "default", "what it limits"),
        (
            (f"`{name}`", f"`{value}`" if isinstance(value, str) else f"{value:g}", setting.brief)
            for name, setting in GUARD_SETTINGS.items()
            for value in [getattr(limits, name)]
        ),
    )


def spend_caps() -> str:
    """The spend caps."""
    caps = SpendCaps()
    return table(
        ("name in the policy", "default", "what it is"),
        (
            (f"`{name}`", f"`{value}`" if isinstance(value, str) else f"{value:g}", setting.brief)
            for name, setting in SPEND_SETTINGS.items()
            for value in [getattr(caps, name)]
        ),
    )


def errors() -> str:
    """The tree of errors, as it is drawn beside the classes."""
    lines = (runtime_errors.__doc__ or "").splitlines()
    return "```\n" + "".join(f"{line[4:]}\n" for line in lines if line.startswith("    ")) + "```\n"


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


def reference() -> str:
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
    return re.sub(r"docs/guide/((\w+)\.md(?:#[\w-]+)?)", r"[\2](\1)", text)


def _methods(name: str) -> str:
    owner = getattr(runtime, name)
    rows = []
    for method in METHODS.get(name, "").split():
        has_twin = hasattr(owner, f"{method}_async")
        words = (inspect.getdoc(inspect.getattr_static(owner, method)) or "").partition("\n\n")[0].replace("\n", " ")
        rows.append((f"`{method}`" + (f", `{method}_async`" if has_twin else ""), words))
    return "\n" + table(("method or property", "what it is"), rows) if rows else ""


def output(example: str) -> str:
    """What an example prints."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{example}.py")],
        env=clean_environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr, run.stderr  # what is logged is no part of the output
    return f"```\n{run.stdout}```\n"


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one for one in (categories, tellings, playbook, kinds, breaker, guards, spend_caps, errors, reference)
}


def part(name: str) -> str:
    """What stands between the marks of this name."""
    kind, _, example = name.partition(" ")
    return output(example) if kind == "output" else TABLES[name]()


def pages() -> list[Path]:
    """The pages of the guide."""
    return sorted(GUIDE.glob("*.md"))


if __name__ == "__main__":
    for page in pages():
        page.write_text(MARKED.sub(lambda found: f"{found[1]}{part(found['name'])}{found[4]}", page.read_text()))
