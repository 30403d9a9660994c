"""A page about a trip, made of parts that may fail: a fallback, an optional part, and what there is without the rest.

Run it: `python docs/guide/examples/partial_answers.py`. Nothing here sleeps: the clock is a laboratory's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recovery_ops.runtime import Fallback, GatherBlocked, Part, Recovery
from recovery_ops.runtime.testing import Lab


@dataclass
class Page:
    """The parts that could be had, why the others could not, and what the reader must know."""

    parts: Mapping[str, Any]
    missing: dict[str, str]
    warnings: tuple[str, ...]


class TripPages:
    """What an agent would have: each service behind a guard, and one function that makes the answer."""

    def __init__(self, recovery: Recovery, services: Mapping[str, Callable[[str], Any]]) -> None:
        self.recovery = recovery
        self.flights = recovery.guard("flights", idempotent=True, max_retries=1)(services["flights"])
        self.prices = recovery.guard(
            "prices",
            idempotent=True,
            max_retries=1,
            fallback=Fallback(
                services["price_cache"], name="price_cache", warning="prices up to 1 h old", data_age_s=3600.0
            ),
        )(services["prices"])
        # Optional: rather left out than failed. The guard then returns a `Degraded`, which is falsy.
        self.reviews = recovery.guard("reviews", idempotent=True, optional=True)(services["reviews"])

    def make(self, city: str) -> Page:
        """Without flights there is no page: GatherBlocked, after asking once more for what is not there."""
        parts = {
            "prices": Part.supplementary(self.prices, city),
            "reviews": Part.supplementary(self.reviews, city),
            "flights": Part.foundational(self.flights, city),
        }
        with self.recovery.run("make a trip page", source="user_request") as run:
            try:
                found = self.recovery.gather(parts)
            except GatherBlocked as blocked:
                if not blocked.can_retry:
                    raise
                found = self.recovery.gather(parts, done=blocked.done)
            return Page(found.data, {name: one.why for name, one in found.unavailable.items()}, run.warnings)


def show(page: Page) -> None:
    """Print a page."""
    print("  parts:   ", dict(page.parts))
    print("  missing: ", page.missing)
    print("  tell:    ", list(page.warnings))


def main() -> None:
    """Prices from the cache and no reviews; then no flights at first; then none at all."""
    lab = Lab()
    services = {
        "flights": lab.script(["LX 38"], 503, 503, ["LX 40"], 404),
        "prices": lab.script(503),
        "price_cache": lab.script({"LX 38": 420}),
        "reviews": lab.script(404),
    }
    pages = TripPages(lab.recovery, services)
    print("Prices fail, reviews fail:")
    show(pages.make("Oslo"))

    outcome = pages.prices.outcome("Oslo")
    print(f"Who answered: {outcome.fallback}, with data {outcome.data_age_s:g} s old")
    reviews = pages.reviews("Oslo")
    print(f"An optional operation that failed: {reviews!r}, a {type(reviews).__name__} and {bool(reviews)}")

    print("Flights fail at first, and are asked for again:")
    calls_before = services["price_cache"].calls
    show(pages.make("Bergen"))
    print("  calls of the price cache for this:", services["price_cache"].calls - calls_before)

    print("There are no flights:")
    try:
        pages.make("Atlantis")
    except GatherBlocked as blocked:
        print(f"  {blocked}")
        print(f"  {blocked.can_retry=} done={list(blocked.done)} not_done={list(blocked.not_done)}")


if __name__ == "__main__":
    main()
