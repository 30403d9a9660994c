"""A refund that is booked once, although its answer was lost and the retry met an idempotency conflict.

Run it: `python docs/guide/examples/refund_once.py`. Nothing here sleeps: the clock is a laboratory's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recovery_ops.runtime import Category, Recovery, Response, attempt
from recovery_ops.runtime.playbook.results import CompensationResult
from recovery_ops.runtime.testing import HttpError, Lab


@dataclass(frozen=True)
class Refund:
    """What the payment provider knows of a refund."""

    order: str
    cents: int
    key: str


@dataclass
class Payments:
    """The provider. It books the refund, and then its answer is lost; asked again with the same key, it says 409."""

    loses_first_answer: bool = True
    booked: list[Refund] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def refund(self, order: str, cents: int) -> Refund:
        """POST /refunds. The key goes upstream with the request, the same for each attempt of one call."""
        key = attempt().idempotency_key or ""
        self.requests.append(key)
        if any(one.key == key for one in self.booked):
            raise HttpError(Response(409, body={"error": {"code": "idempotency_key_in_use"}}))
        self.booked.append(Refund(order, cents, key))
        if self.loses_first_answer and len(self.requests) == 1:
            raise ConnectionResetError("Connection reset by peer")
        return self.booked[-1]

    def find_refund(self, order: str) -> Refund | None:
        """GET /refunds?order=…"""
        return next((one for one in self.booked if one.order == order), None)


class Refunds:
    """The agent's side: a guarded call, and what to do when the provider says that it already happened."""

    def __init__(self, recovery: Recovery, payments: Payments) -> None:
        self.recovery = recovery
        self.payments = payments
        # With a key a call may be repeated although doing it twice would do harm: the provider tells the two apart.
        self._refund = recovery.guard("refund", idempotency_key=lambda order, cents: f"refund-{order}-{cents}")(
            payments.refund
        )
        self.settled: CompensationResult | None = None

    def refund(self, order: str, cents: int) -> Refund:
        """The refund of an order, which exists once afterwards; raises what happened where that cannot be said."""
        with self.recovery.run("refund", source="user_request"):
            try:
                return self._refund(order, cents)
            except Exception as error:  # the payments' own: nothing was tried after it
                report = self.recovery.report(error)
                if report is None or report.category is not Category.IDEMPOTENCY_CONFLICT:
                    raise
                # The playbook: never again; it already happened. So the provider is asked what there is.
                self.settled = self.recovery.dispatch_failure(error)
                found = self.payments.find_refund(order)
                if found is None or found.cents != cents:
                    raise  # the key was used for something else: a person has to look
                return found


def main() -> None:
    """A refund with a lost answer, told step by step."""
    lab, payments = Lab(), Payments()
    refunds = Refunds(lab.recovery, payments)
    refund = refunds.refund("order-7", 1999)
    print("refunded:", refund)
    print("requests made:", payments.requests)
    print("booked:", len(payments.booked), "time")
    if refunds.settled is not None:
        print(f"the playbook: {refunds.settled.verdict}, {refunds.settled.outcome}: {refunds.settled.advice}")
    print("waits:", lab.waits)


if __name__ == "__main__":
    main()
