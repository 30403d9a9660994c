"""A chain of models, for guards (`chain=`) and for callers with a loop of their own."""

from __future__ import annotations

import threading

from recovery_ops.rules import model_chain
from recovery_ops.rules.model_chain import NO_NEEDS, Model, Needs
from recovery_ops.rules.words import Category
from recovery_ops.runtime import forks
from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.errors import ModelFallback
from recovery_ops.runtime.signals import classify


class ModelChain(model_chain.ModelChain):
    """Primary → a → b: `ModelChain("large", "small")`.

    Given to a guard (`chain=`), the callable asks `attempt().model or "large"`. In a loop of your own:

        model = chain.ask()
        try:
            answer = request(model)
        except Exception as error:
            chain.failed(model, error)    # raises ModelFallback when it is time for the next model
            raise
        chain.answered(model)
    """

    def __init__(
        self, *models: str | Model, overloads: int = 3, cooldown_s: float = 60.0, clock: Clock | None = None
    ) -> None:
        super().__init__(*models, overloads=overloads, cooldown_s=cooldown_s)
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        forks.follow(self)

    def before_fork(self) -> None:
        """Nothing is held open."""

    def after_fork_in_parent(self) -> None:
        """Nothing was given up."""

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock: it will never give it back here."""
        self._lock = threading.Lock()

    def ask(self, needs: Needs = NO_NEEDS) -> str:
        """The model to ask now."""
        with self._lock:
            return self.current(self._clock.now(), needs)

    def failed(self, model: str, error: BaseException, needs: Needs = NO_NEEDS) -> None:
        """A request of this model failed. Raises ModelFallback where the next request must go to another."""
        if classify(error, now=self._clock.wall()).category is not Category.OVERLOADED:
            return
        with self._lock:
            fact = self.overloaded(model, self._clock.now(), needs)
        if fact is not None:
            raise ModelFallback(fact.from_model, fact.to_model) from error

    def answered(self, model: str) -> bool:
        """A request of this model succeeded; True where the primary is back."""
        with self._lock:
            return self.succeeded(model)
