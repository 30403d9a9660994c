"""What a client does for an agent beyond guarding calls: questions to people, parts, failures and requests.

Each method is thin: its room is imported when it is first used, because most agents use few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from recovery_ops.runtime.engine import Engine

if TYPE_CHECKING:
    from recovery_ops.rules.classification.classify import Failure
    from recovery_ops.rules.enums import Category
    from recovery_ops.rules.events import Escalated
    from recovery_ops.rules.playbook.interventions import Intervention
    from recovery_ops.rules.playbook.verdicts import Playbook
    from recovery_ops.rules.policy.model import OperationPolicy, Policy
    from recovery_ops.runtime.calls.deadline import Duration
    from recovery_ops.runtime.failures.signals import Response
    from recovery_ops.runtime.human_input import Decision, QuestionOptions
    from recovery_ops.runtime.partial_results.parts import Gathered, Part
    from recovery_ops.runtime.playbook.interventions import Hooks
    from recovery_ops.runtime.playbook.results import CompensationResult, DispatchOptions
    from recovery_ops.runtime.playbook.reversal import Redemptions, ReversalToken

Parts = Mapping[str, "Part | Callable[[], Any]"]


class Actions(Engine):
    """An engine that acts for an agent beyond a guarded call."""

    def ask(
        self,
        question: str,
        *,
        proposal: str = "",
        queue: str = "review",
        reason: str = "question",
        operation: str = "",
        category: Category | None = None,
        timeout: Duration = 1800.0,
        default: Literal["deny", "allow"] = "deny",
        ticket: str = "",
    ) -> str:
        """Open an escalation and return its ticket without waiting.

        The question is an event, so it also arrives after an outage of the server; the answer is part of the desired
        state, so it also reaches an agent that was restarted meanwhile. `answer_to` finds it by the ticket.

        - `proposal`: what is to be done if it is approved; `Decision.text` is this, or a person's version of it.
        - `queue`, `reason`: the queue of the escalation policy, and one of the console's reasons.
        - `operation`, `category`: what the question is about.
        - `timeout`: 1 s to 30 days, in seconds or as a timedelta; then `default` is the decision.
        - `ticket`: a name of your own, unique in the environment: the same question after a restart.

        ConfigurationError for a question that nobody could answer.
        Rules: docs/guide/human-input.md

        >>> ticket = recovery.ask("May 120 EUR be refunded?", queue="payments", ticket="refund-7")
        >>> recovery.answer_to(ticket) is None  # until somebody decides
        True
        """
        from recovery_ops.runtime import human_input

        options: QuestionOptions = {
            "proposal": proposal,
            "queue": queue,
            "reason": reason,
            "operation": operation,
            "category": category,
            "timeout": timeout,
            "default": default,
            "ticket": ticket,
        }
        return human_input.ask(self, question, options)

    def escalate(self, question: str, **options: Unpack[QuestionOptions]) -> Decision:
        """Open an escalation and block this thread until the decision.

        The run's deadline stands still meanwhile. Without an answer in time the decision is the `default`, by the
        agent's own clock. RunCancelled where the run is called off meanwhile. Rules:
        docs/guide/human-input.md

        >>> decision = recovery.escalate("May 120 EUR be refunded?", proposal="120 EUR", timeout=600)
        >>> decision.is_approved, decision.by  # nobody answered
        (False, 'deadline')
        """
        from recovery_ops.runtime import human_input

        return human_input.escalate(self, question, options)

    async def escalate_async(self, question: str, **options: Unpack[QuestionOptions]) -> Decision:
        """`escalate` for tasks; a cancel of the task passes through."""
        from recovery_ops.runtime import human_input

        return await human_input.escalate_async(self, question, options)

    def answer_to(self, ticket: str, *, proposal: str = "") -> Decision | None:
        """The decision of a ticket, in any process of the service; None if there is none yet.

        `proposal` is what was proposed: it is `Decision.text` where a person left it unchanged, because the console
        received it masked and does not send it back.

        >>> recovery.answer_to("refund-7") is None
        True
        """
        from recovery_ops.runtime import human_input

        return human_input.answer_to(self, ticket, proposal=proposal)

    def stop_agent(self, reason: str, *, by: str = "", duration: Duration = 3600.0) -> None:
        """Stop this process without a console; the effect is that of an operator's stop.

        Runs in flight are aborted with saved state (RunCancelled); new runs, and guarded calls outside of runs, are
        rejected (RunsPaused). Heartbeats say so. `by`: who stops it. `duration`: up to 24 h, in seconds or as a
        timedelta; a second stop replaces the first. It holds whatever `Limits` says. No breaker changes its state.
        ConfigurationError for a stop without a reason or an end. Rules: docs/guide/runs.md

        >>> recovery.stop_agent("the ledger is locked", by="nightly check", duration=600)
        >>> recovery.takes_new_work
        False
        >>> recovery.resume_agent()
        True
        """
        from recovery_ops.runtime.runs import own_stop

        own_stop.stop_agent(self, reason, by=by, duration=duration)

    def resume_agent(self) -> bool:
        """End the stop of `stop_agent`; returns whether there was one. A stop from the console ends there only.

        >>> recovery.resume_agent()
        False
        """
        from recovery_ops.runtime.runs import own_stop

        return own_stop.resume_agent(self)

    def gather(
        self,
        parts: Parts,
        *,
        at_once: int = 1,
        timeout: Duration | None = None,
        done: Mapping[str, Any] | None = None,
    ) -> Gathered:
        """Make several calls of which some may fail, and return their results.

        `parts` are calls by name: `Part.foundational(f, …)`, `Part.supplementary(f, …)`, or a callable, which is
        foundational. They are made one after the other, or in `at_once` threads. All share `timeout`, in seconds or as
        a timedelta, never later than that of the run: parts not begun by then are not begun, busy threads are left
        behind, and both are unavailable. `done` are results of an earlier `gather`, which are not asked for again.

        The result has `data` by name, `unavailable` with the reasons, and `complete`. GatherBlocked when a foundational
        part is missing, once everything that was begun has ended. Cancels, StopRun and RunCancelled of a part pass.
        Rules: docs/guide/fallbacks.md

        >>> found = recovery.gather(
        ...     {"profile": lambda: {"city": "Bern"}, "weather": Part.supplementary(float, "not a number")}
        ... )
        >>> found.complete, dict(found.data), list(found.unavailable)
        (False, {'profile': {'city': 'Bern'}}, ['weather'])
        """
        from recovery_ops.runtime.partial_results import gather

        return gather.gather(self, parts, at_once=at_once, timeout=timeout, done=done)

    async def gather_async(
        self,
        parts: Parts,
        *,
        at_once: int | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109  # one for several calls, shared with the sync form
        done: Mapping[str, Any] | None = None,
    ) -> Gathered:
        """`gather` for tasks: all calls at once unless `at_once` limits them; asyncio or trio.

        A missing foundational part and the timeout cancel the other calls; a cancel from outside cancels all of them,
        and is raised when they have ended. Functions that are not async run in the task itself.
        """
        from recovery_ops.runtime.partial_results import gather

        return await gather.gather_async(self, parts, at_once=at_once, timeout=timeout, done=done)

    def dispatch_failure(
        self,
        failure: Failure | Response | BaseException,
        *,
        retry: Callable[[], Any] | None = None,
        operation: str = "",
        foreground: bool | None = None,
        source: str = "",
        idempotent: bool = False,
        idempotency_key: str | None = None,
        timeout: Duration | None = None,
        refresh_evidence: Callable[[], Any] | None = None,
        escalate: Callable[[Escalated], Any] | None = None,
        reversal: ReversalToken | None = None,
        store: Redemptions | None = None,
        playbook: Playbook | Mapping[str, Any] | None = None,
        policy: OperationPolicy | Policy | None = None,
        attempt: int | None = None,
    ) -> CompensationResult:
        """Apply the playbook to a failure of a call without a guard, and return the outcome.

        - `retry`: makes the call again; it may read `attempt()`. Without it nothing is retried.
        - `operation`, `source`, `foreground`: the name of the call, and who waits; by default those of the error and
          of the run.
        - `idempotent`, `idempotency_key`: a repetition does no harm; otherwise only failures that prove that nothing
          was done are retried.
        - `timeout`: for everything, in seconds or as a timedelta; by default that of a run (300 s).
        - `refresh_evidence`: reads anew what the call was based on, after a 412.
        - `escalate`: called with each question; it is an event on the console with or without this.
        - `reversal`, `store`: the `reversal_token` of the call, and a checkpoint store in which it is spent once.
        - `playbook`, `policy`: in place of the live ones; a playbook may be its JSON object.
        - `attempt`: the number of the attempt that failed (1).

        The result has `outcome` (`succeeded_after_compensation`, `deprecated`, `escalated`, `reversed`, `exhausted`),
        `is_success`, `value`, `needs_new_plan` and `advice`. Cancels, StopRun and RunCancelled are raised, and
        PolicyInvalid for a playbook that is none. Rules: docs/guide/failures.md#playbook

        >>> settled = recovery.dispatch_failure(TimeoutError(), retry=lambda: "booked", idempotent=True)
        >>> settled.is_success, settled.value, settled.attempts
        (True, 'booked', 1)
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "failure")}
        from recovery_ops.runtime.playbook import dispatch

        return dispatch.dispatch_failure(self, failure, cast("DispatchOptions", given))

    async def dispatch_failure_async(
        self, failure: Failure | Response | BaseException, **options: Unpack[DispatchOptions]
    ) -> CompensationResult:
        """`dispatch_failure` for tasks: the callables may be async, and the timeout cancels them."""
        from recovery_ops.runtime.playbook import dispatch

        return await dispatch.dispatch_failure_async(self, failure, options)

    def reversal_token(self, operation: str, action_id: str, undo: Callable[[], Any]) -> ReversalToken:
        """Token that allows to undo one destructive call, once: pass it to the call and to
        `dispatch_failure(reversal=)`.

        `action_id` names what the call does (an order, a charge); `undo` takes it back, sync or async. Two tokens of
        the same operation and action are the same right. Rules: docs/guide/failures.md#playbook

        >>> token = recovery.reversal_token("charge_card", "order-7", lambda: "refunded")
        >>> token.operation, token.action_id
        ('charge_card', 'order-7')
        """
        from recovery_ops.runtime.playbook.reversal import ReversalToken

        return ReversalToken(operation, action_id, undo)

    def intervene(
        self,
        call: Callable[[Any], Any],
        request: Any,
        *,
        modify: Callable[[Any, Intervention, Failure], Any] | None = None,
        transform: Callable[[Any, Failure], Any] | None = None,
        ask_user: Callable[[Failure], Any] | None = None,
        save: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return `call(request)`, if needed after changes of the request, the cheapest first.

        `call` is a guarded callable, which retries the same request by itself. Each change is tried once:

        - `modify(request, how, failure)`: the changed request, or None where it cannot be changed so. `how` is one of
          `smaller_answer`, `other_model`, `tell_error`, `cut_input` (leave `input_share` of it) and `split`.
        - `transform(request, failure)`: the request with its context compacted, or None. Off for the run after three
          failures in a row.
        - `ask_user(failure)`: True makes the request once more as it is.
        - `save(request)`: keeps the state and returns the id to resume with, which the error then carries.

        Raises what the last call raised, and at once StopRun, RunCancelled, DeadlineExceeded and whatever is no
        failure. Rules: docs/guide/tools.md#failures-of-the-model

        >>> recovery.intervene(lambda words: f"{len(words)} words", ["hello", "world"])
        '2 words'
        """
        from recovery_ops.runtime.playbook import interventions

        hooks: Hooks = {"modify": modify, "transform": transform, "ask_user": ask_user, "save": save}
        return interventions.intervene(self, call, request, hooks)

    async def intervene_async(self, call: Callable[[Any], Any], request: Any, **hooks: Unpack[Hooks]) -> Any:
        """`intervene` for tasks; the callables may be async."""
        from recovery_ops.runtime.playbook import interventions

        return await interventions.intervene_async(self, call, request, hooks)

    @property
    def input_share(self) -> float:
        """Share of the input that a request keeps when it is cut, from 0 to 1 (`guards.input_share`, 0.75)."""
        return self.desired.policy.guards.input_share
