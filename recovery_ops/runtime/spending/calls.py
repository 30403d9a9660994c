"""The spend caps of one guarded call: its reservation, the wait for others, and the question to a person."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.events import Escalated, Event
from recovery_ops.rules.policy.escalation_rules import DENY
from recovery_ops.rules.policy.spend_settings import ASK, SpendCaps
from recovery_ops.rules.resilience.spend_steps import reached
from recovery_ops.rules.resilience.steps import Cancelled, OutOfTime, OverCap, Reply, Reserve, Reserved
from recovery_ops.rules.spending import (
    ADMITTED,
    QUEUE,
    SPEND_CAP,
    UNKNOWN_CALL,
    Admission,
    SpendCap,
    Spending,
    SpendRuling,
    call_bound,
)
from recovery_ops.runtime.calls.drivers import Blocking, Invoke, Pause, Steps
from recovery_ops.runtime.calls.operation import ATTEMPT
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.runs.context import RunContext

if TYPE_CHECKING:
    from recovery_ops.runtime.spending.accounts import SpendAccounts, SpendMeter

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.25
"""How soon the accounts are looked at again while open calls may use up the rest; other processes wake nobody here."""

BoundOf = Callable[[str | None], Spending]
AskUser = Callable[[Escalated], Any]


def accounts_of(recovery: Engine) -> SpendAccounts:
    """The accounts of a client; the first call under a cap makes them."""
    found = recovery.spend_accounts
    if found is None:
        from recovery_ops.runtime.spending.accounts import SpendAccounts  # SQLite: most agents have no caps

        with recovery.lock:
            found = recovery.spend_accounts = recovery.spend_accounts or SpendAccounts(
                recovery.identity, recovery.clock
            )
    return found


def charge_owed(recovery: Engine, scope: RunContext) -> None:
    """A run ends: charge what its code counted after its last model call."""
    caps = recovery.desired.policy.spend_caps
    if recovery.is_off or not caps.is_on:
        return
    with recovery.lock:
        owed = scope.take_owed()
    accounts = accounts_of(recovery)
    limits = accounts.limits(caps, scope, scope.source, has_cheaper=False)
    if owed != _NOTHING and limits:
        accounts.charge(limits, owed)


_NOTHING = Spending()


class CallSpending:
    """Reservations of one call, one open at a time."""

    def __init__(self, recovery: Engine, scope: RunContext | None, source: str) -> None:
        self._recovery, self._scope, self._source = recovery, scope, source
        self._outer = ATTEMPT.get().meter
        self._ruling = ADMITTED
        self.open: SpendMeter | None = None

    def reserve(self, step: Reserve, *, bound_of: BoundOf | None, ask_user: AskUser | None) -> Steps[Reply]:
        """Reserve an attempt under the caps that hold now; wait while open calls may use up the rest."""
        recovery, clock = self._recovery, self._recovery.clock
        ends_at, pause_s, held_s = clock.now() + step.deadline_s, _FIRST_PAUSE_S, 0.0
        while True:
            seen, caps = recovery.waker.changes, recovery.desired.policy.spend_caps
            limits = accounts_of(recovery).limits(caps, self._scope, self._source, has_cheaper=step.has_cheaper)
            if not limits:
                return Reserved(clock.now(), held_s)
            bound = call_bound(caps, UNKNOWN_CALL if bound_of is None else bound_of(step.model))
            yield Blocking(partial(self._take, limits, bound))
            if self.open is not None:
                return Reserved(clock.now(), held_s)
            if self._is_called_off:
                return Cancelled(clock.now())
            if self._ruling.admission is Admission.AT_CAP:
                began = clock.now()
                is_raised = caps.action == ASK and (yield from self._asked(step, caps, ask_user))
                held_s += clock.now() - began
                if is_raised:
                    continue
                return OverCap(clock.now(), self._ruling, held_s, self._is_news(step))
            left_s = ends_at + held_s - clock.now()
            if left_s <= 0:
                return OutOfTime(clock.now())
            yield Pause(recovery.waker, min(left_s, pause_s), seen)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def charge(self) -> None:
        """An attempt was made: charge it and what it is known to have spent."""
        meter, self.open = self.open, None
        if meter is None:
            return
        with self._recovery.lock:
            meter.is_settled = True
        actual = Spending(calls=1, tokens=meter.tokens, cost_usd=meter.cost_usd)
        accounts_of(self._recovery).settle(meter, actual, self._owed)

    def release(self) -> None:
        """The call is over: a reservation of which no attempt came ends. With the runtime's lock held."""
        meter, self.open = self.open, None
        if meter is not None:
            meter.is_settled = True
            accounts_of(self._recovery).settle(meter, _NOTHING)

    @property
    def _is_called_off(self) -> bool:
        return self._scope is not None and self._scope.is_cancelled

    def _take(self, limits: dict[str, SpendCap], bound: Spending) -> None:
        """Blocks this thread. Keeps the reservation at once: a cancel may come before anybody hears of it."""
        from recovery_ops.runtime.spending.accounts import SpendMeter

        found, ledger = accounts_of(self._recovery).reserve(limits, bound, self._outer, self._owed)
        self._ruling = found.ruling
        if found.is_admitted:
            self.open = SpendMeter(found, ledger)

    def _owed(self) -> Spending:
        if self._scope is None:
            return _NOTHING
        with self._recovery.lock:
            return self._scope.take_owed()

    def _is_news(self, step: Reserve) -> bool:
        """Whether the run page lacks it: a cheaper model is said once, the end of the run each time."""
        run = self._scope.root_run_id if self._scope is not None else ""
        return not step.has_cheaper or accounts_of(self._recovery).is_news(step.operation, run, self._ruling.account)

    def _asked(self, step: Reserve, caps: SpendCaps, ask_user: AskUser | None) -> Steps[bool]:
        """Ask a person to raise the cap; whether it is raised. The deadlines of the run stand still meanwhile."""
        ruling, scope, clock = self._ruling, self._scope, self._recovery.clock
        ticket = _ticket(self._recovery.instance.service, ruling)
        if scope is not None:
            scope.hold(clock.now())
        try:
            if ask_user is None:
                is_raised = yield from self._asked_in_queue(step, caps, ticket)
            else:
                self._tell(reached(step.operation, ruling, ASK))
                question = _question(step, ruling, caps, "")
                is_raised = (yield Invoke(ask_user, (question,), deadline_s=caps.ask_deadline_s)) is True
            raises = partial(accounts_of(self._recovery).raise_cap, ruling.account, ruling.raises + 1)
            return is_raised and (yield Blocking(raises))
        finally:
            if scope is not None:
                scope.let_go(clock.now())

    def _asked_in_queue(self, step: Reserve, caps: SpendCaps, ticket: str) -> Steps[bool]:
        recovery, accounts = self._recovery, accounts_of(self._recovery)
        if accounts.is_news(ticket):
            accounts.asked_at[ticket] = recovery.clock.now()
            self._tell(reached(step.operation, self._ruling, ASK))
            self._tell(_question(step, self._ruling, caps, ticket))
        ends_at = accounts.asked_at.get(ticket, recovery.clock.now()) + caps.ask_deadline_s
        while not self._is_called_off:
            seen = recovery.waker.changes
            answer = next((one for one in recovery.desired.answers if one.ticket == ticket), None)
            left_s = ends_at - recovery.clock.now()
            if answer is not None or left_s <= 0:
                return answer is not None and answer.is_approval
            yield Pause(recovery.waker, left_s, seen)
        return False

    def _tell(self, event: Event) -> None:
        with self._recovery.lock:
            self._recovery.record(event, source=self._source, scope=self._scope)


def _ticket(service: str, ruling: SpendRuling) -> str:
    """One question for each cap that is reached, whichever processes of the service ask it."""
    from hashlib import blake2b  # when first needed: an agent without spend caps does without OpenSSL

    about = f"{service}\0{ruling.account}\0{ruling.raises}".encode("utf-8", "replace")
    return f"{SPEND_CAP}-{blake2b(about, digest_size=16).hexdigest()}"


def _question(step: Reserve, ruling: SpendRuling, caps: SpendCaps, ticket: str) -> Escalated:
    unit = "USD" if ruling.measure == "cost_usd" else ruling.measure
    message = f"{ruling.account} has reached its cap: {ruling.spent:g} of {ruling.limit:g} {unit}."
    return Escalated(
        operation=step.operation,
        queue=QUEUE,
        reason=SPEND_CAP,
        escalation_id=ticket or None,
        message=message,
        proposal="Raise the limit by one more cap.",
        deadline_s=caps.ask_deadline_s,
        default_action=DENY,
    )
