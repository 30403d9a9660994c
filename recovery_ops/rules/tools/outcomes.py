"""The result of a tool call for each way in which it can end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category
from recovery_ops.rules.run_limits import LONGEST_OUTSIDE, RunStop
from recovery_ops.rules.tools.results import (
    ADVICE,
    ANSWER_WITH_WHAT_THERE_IS,
    CHECK_FIRST,
    DENIED,
    ELSEWHERE,
    NO_BYPASS,
    REFUSED,
    STOPPED,
    STOPPED_TOOL,
    UNKNOWN_TOOL,
    WITHDRAWN,
    Detail,
    DeveloperRecord,
    ResultKind,
    ToolResult,
    Trouble,
    advice_on,
    clock_time,
    expected_schema,
    outside_message,
    plain_name,
    told,
    why_of,
)
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.rules.user_messages import TELLINGS, UserMessage

_MOST_NAMES = 100
_UNPROVEN = frozenset({Category.NETWORK, Category.TIMEOUT, Category.SERVER_ERROR, Category.UNKNOWN})
"""Failures after which a thing may have been done all the same."""


def succeeded(
    use: ToolUse,
    value: object,
    content: str,
    *,
    fallback: str | None = None,
    warning: str | None = None,
    data_age_s: float | None = None,
) -> ToolResult:
    """The tool answered, or its fallback did: then the model is told whose answer it is."""
    if fallback is not None:
        age = f"; its data may be {data_age_s:g} s old" if data_age_s is not None else ""
        said = f"; {outside_message(warning)}" if warning else ""
        content = (
            f"{content}\nNote: this comes from {plain_name(fallback)} instead of {plain_name(use.name)}{said}{age}."
        )
    return ToolResult(
        tool_use_id=use.id,
        tool=use.name,
        kind=ResultKind.SUCCEEDED,
        content=content,
        value=value,
        fallback=fallback,
        warning=warning,
        data_age_s=data_age_s,
    )


def unknown_tool(use: ToolUse, names: Iterable[str]) -> ToolResult:
    """The model asked for a tool that does not exist: it is told which ones do."""
    offered = [plain_name(name) for name in names]
    listed = ", ".join(offered[:_MOST_NAMES]) or "none"
    more = f" and {len(offered) - _MOST_NAMES} more" if len(offered) > _MOST_NAMES else ""
    suggestion = "Use one of the tools there are."
    return _error(
        use,
        Trouble(
            what=f"there is no tool named {plain_name(use.name)}.",
            category=Category.MODEL_OUTPUT,
            suggestion=suggestion,
            extra=f"Tools: {listed}{more}.",
        ),
        UNKNOWN_TOOL,
        kind=ResultKind.UNKNOWN_TOOL,
    )


def invalid_arguments(
    use: ToolUse,
    failure: Failure,
    faults: Iterable[str],
    schema_text: str,
    record: DeveloperRecord | None = None,
    *,
    outside_chars: int = LONGEST_OUTSIDE,
) -> ToolResult:
    """What the model wrote does not fit: it is told where, and which schema is expected. The tool was not called."""
    why = "; ".join(outside_message(fault) for fault in faults)
    return _error(
        use,
        Trouble(
            what=f"{plain_name(use.name)} was not called: its arguments do not fit.",
            why=why or "they could not be read as JSON.",
            category=failure.category,
            outside="" if why else failure.message,
            outside_chars=outside_chars,
            suggestion=ADVICE[Category.MODEL_OUTPUT],
            extra=expected_schema(schema_text),
        ),
        TELLINGS[Category.MODEL_OUTPUT],
        detail=Detail.INVALID_ARGUMENTS,
        record=record,
    )


def denied(
    use: ToolUse,
    reason: str,
    *,
    is_person_asked: bool,
    bypass_allowed: bool = True,
    outside_chars: int = LONGEST_OUTSIDE,
) -> ToolResult:
    """Our own check said no; the tool was never called."""
    next_step = (
        "do it another way, or ask the user to allow it."
        if bypass_allowed
        else f"only the user can allow it. {NO_BYPASS}"
    )
    waits = "A person has been asked; do not wait for the answer." if is_person_asked else ""
    return _error(
        use,
        Trouble(
            what=f"{plain_name(use.name)} was not called: permission denied.",
            why=outside_message(reason, outside_chars),
            suggestion=f"Do not make the same call again; {next_step}",
            extra=waits,
        ),
        DENIED,
        kind=ResultKind.DENIED,
    )


def refused(
    use: ToolUse,
    operation: str,
    reason: str,
    retry_at: datetime | None,
    record: DeveloperRecord | None = None,
    *,
    bypass_allowed: bool = True,
) -> ToolResult:
    """The breaker, an operator, the server's pause or the deadline did not let the call through."""
    rest = ELSEWHERE if bypass_allowed else NO_BYPASS
    until = f"it is refused until {clock_time(retry_at)}" if retry_at else "it is refused, nobody knows for how long"
    return _error(
        use,
        Trouble(
            what=f"{plain_name(operation)} was not called: {until}.",
            why=outside_message(reason),
            suggestion=f"Do not call it before then. {rest}" if retry_at else rest,
        ),
        REFUSED,
        detail=Detail.REFUSED,
        retry_at=retry_at,
        record=record,
    )


def withdrawn(use: ToolUse, reason: str, *, bypass_allowed: bool = True) -> ToolResult:
    """An optional tool is left out of the rest of the run. Not an error."""
    suggestion = "Go on without it." if bypass_allowed else NO_BYPASS
    name = plain_name(use.name)
    why = f" ({outside_message(reason)})" if reason else ""
    return ToolResult(
        tool_use_id=use.id,
        tool=name,
        kind=ResultKind.FAILED,
        detail=Detail.WITHDRAWN,
        content=f"{name} is withdrawn for the rest of this task{why}. Suggestion: {suggestion}",
        suggestion=suggestion,
        for_user=WITHDRAWN,
    )


def stopped_tool(use: ToolUse, *, waits_for_a_person: bool, bypass_allowed: bool = True) -> ToolResult:
    """The tool is not called any more in this run."""
    why = "A policy refused it, and a person has to decide first." if waits_for_a_person else "It has failed too often."
    return _error(
        use,
        Trouble(
            what=f"{plain_name(use.name)} was not called: it is not called any more in this task.",
            why=why,
            suggestion=f"Do not call it again. {ANSWER_WITH_WHAT_THERE_IS if bypass_allowed else NO_BYPASS}",
        ),
        STOPPED_TOOL,
        detail=Detail.STOPPED_TOOL,
    )


def failed(
    use: ToolUse,
    failure: Failure,
    *,
    attempts: int = 1,
    retry_at: datetime | None = None,
    is_repeatable: bool = False,
    bypass_allowed: bool = True,
    record: DeveloperRecord | None = None,
    outside_chars: int = LONGEST_OUTSIDE,
) -> ToolResult:
    """The tool was called, and its call did not hold on any rung."""
    category = failure.category
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    may_have_happened = not is_repeatable and category in _UNPROVEN and not failure.nothing_was_done
    advice = advice_on(category, bypass_allowed=bypass_allowed)
    advice = f"{advice} {CHECK_FIRST}" if may_have_happened else advice
    return _error(
        use,
        Trouble(
            what=f"{plain_name(use.name)} failed{tries}.",
            why=why_of(category),
            category=category,
            outside=failure.message,
            outside_chars=outside_chars,
            suggestion=f"{advice} Not before {clock_time(retry_at)}." if retry_at else advice,
        ),
        UserMessage(failure.user_message, failure.suggestion, failure.can_retry),
        retry_at=retry_at,
        record=record,
    )


def cancelled(use: ToolUse, *, was_called: bool, why: str = "") -> ToolResult:
    """The call was called off. Not an error."""
    name = plain_name(use.name)
    what = "was cancelled before it finished; what it did is not known" if was_called else "was not called"
    because = f": {outside_message(why)}" if why else ""
    return ToolResult(
        tool_use_id=use.id,
        tool=name,
        kind=ResultKind.CANCELLED,
        content=f"{name} {what}{because}. Suggestion: {ADVICE[Category.CANCELLED]}",
        category=Category.CANCELLED,
        suggestion=ADVICE[Category.CANCELLED],
        for_user=TELLINGS[Category.CANCELLED],
    )


def run_stopped(use: ToolUse, stop: RunStop, record: DeveloperRecord | None = None) -> ToolResult:
    """The call that ended the run. The model gets no turn, and nothing that an upstream said about permission."""
    return _error(
        use,
        Trouble(
            what=f"{plain_name(use.name)} did not finish: the task was ended.",
            suggestion="Do not go on with this task.",
        ),
        UserMessage(stop.user_message, STOPPED.suggestion, False),
        detail=Detail.RUN_STOPPED,
        record=record,
    )


def advised(result: ToolResult, advice: str) -> ToolResult:
    """The result with a word of the run's guards to the model."""
    if not advice:
        return result
    whole = f"{result.advice}\n{advice}" if result.advice else advice
    return replace(result, content=f"{result.content}\n{advice}", advice=whole)


def _error(
    use: ToolUse,
    trouble: Trouble,
    for_user: UserMessage,
    *,
    kind: ResultKind = ResultKind.FAILED,
    detail: Detail = Detail.NONE,
    retry_at: datetime | None = None,
    record: DeveloperRecord | None = None,
) -> ToolResult:
    return ToolResult(
        tool_use_id=use.id,
        tool=plain_name(use.name),
        kind=kind,
        detail=detail,
        is_error=True,
        content=told(trouble),
        category=trouble.category,
        suggestion=trouble.suggestion,
        retry_at=retry_at,
        for_user=for_user,
        for_developer=record,
    )
