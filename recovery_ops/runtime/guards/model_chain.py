"""A chain of models, for guards (`chain=`) and for callers with a loop of their own."""

from __future__ import annotations

import threading

from recovery_ops.rules.resilience import model_chain
from recovery_ops.rules.resilience.model_chain import NO_NEEDS, Model, Needs
from recovery_ops.runtime.failures.signals import classify
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock


class ModelChain(forks.InChild, model_chain.ModelChain):
    """Models in order: the first is asked, and the next when it is exhausted.

    `models` are names or `Model`s. A model is exhausted after `overloads` overloads in a row, or at once after a
    timeout, a spent quota, an overflow that another model can take, or `model_not_found`. The first is asked again
    after `cooldown_s` (60 s), or when its quota resets. A guard takes the chain as `chain=`,
    and the function reads `attempt().model`; each model then has a breaker of its own. In a loop of your own: `ask`,
    `answered`, `failed`. ValueError for an empty chain, an invalid model or a duplicate. Thread-safe. Rules:
    docs/guide/models.md

    >>> chain = ModelChain("large", "small")
    >>> model = chain.ask()
    >>> try:
    ...     raise TimeoutError  # the request to this model
    ... except TimeoutError as error:
    ...     model = chain.failed(model, error)  # the model to ask instead; None: nobody
    >>> model
    'small'
    """

    def __init__(
        self, *models: str | Model, overloads: int = 3, cooldown_s: float = 60.0, clock: Clock | None = None
    ) -> None:
        super().__init__(*models, overloads=overloads, cooldown_s=cooldown_s)
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        forks.follow(self)

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock: it will never give it back here."""
        self._lock = threading.Lock()

    def ask(self, needs: Needs = NO_NEEDS) -> str:
        """The model to ask now."""
        with self._lock:
            return self.current(self._clock.now(), needs)

    def failed(self, model: str, error: BaseException, needs: Needs = NO_NEEDS) -> str | None:
        """Report a failed request of a model; returns the next model, or None.

        After so many failures in a row (`overloads`) of the service; at once where a repetition would fail alike.
        """
        failure = classify(error, now=self._clock.wall())
        with self._lock:
            event = self.used_up(model, failure, self._clock.now(), needs)
        return event.to_model if event is not None else None

    def answered(self, model: str) -> bool:
        """Report a successful request of a model; True if the first model is back."""
        with self._lock:
            return self.succeeded(model)
