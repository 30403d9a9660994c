"""A chain of models: after several overloads in a row the next one is asked, until the first has cooled down.

One chain is shared by all calls of a process that ask for the same first model. It is told the time and takes no lock,
like a breaker, and is independent of it: both may act at once.
"""

from __future__ import annotations

from recovery_ops.rules.facts import ModelFallback
from recovery_ops.rules.knobs import KNOBS, fault_of
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model, and what it can do that a request may need."""

    name: str
    has_tools: bool = True
    context_tokens: int | None = None
    """None: as large as any request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a request needs of a model."""

    tools: bool = False
    context_tokens: int = 0

    def are_met_by(self, model: Model) -> bool:
        """Whether the model can answer such a request."""
        is_large_enough = model.context_tokens is None or model.context_tokens >= self.context_tokens
        return is_large_enough and (model.has_tools or not self.tools)


NO_NEEDS = Needs()
Order = tuple[str, ...] | None
"""What a policy says of the models after the primary: which, and in which order. None: nothing."""


class ModelChain:
    """Primary → a → b. `models` are names, or `Model`s where a fallback cannot do all that the first can.

    After `overloads` consecutive overloads of the model that is asked, the next that meets the request's needs is
    asked; a success resets the count. The primary is tried again after `cooldown_s`: one overload then is enough to
    go back, one success ends the fallback.
    """

    def __init__(self, *models: str | Model, overloads: int = 3, cooldown_s: float = 60.0) -> None:
        self.models = tuple(one if isinstance(one, Model) else Model(name=one) for one in models)
        if not self.models:
            raise ValueError("a chain needs at least one model")
        if len({one.name for one in self.models}) != len(self.models):
            raise ValueError("a model stands twice in the chain")
        if fault := fault_of(KNOBS["model_fallback_after"], overloads):
            raise ValueError(f"overloads {fault}, not {overloads!r}")
        if fault := fault_of(KNOBS["model_cooldown_s"], cooldown_s):
            raise ValueError(f"cooldown_s {fault}, not {cooldown_s!r}")
        self.overloads = overloads
        self.cooldown_s = cooldown_s
        self._counts: dict[str, int] = {}
        self._passed_over: dict[str, float] = {}
        """Models that are not asked, and since when."""

    def configure(self, knobs: Knobs) -> None:
        """New numbers; what was counted stays."""
        self.overloads = knobs.model_fallback_after or 0
        self.cooldown_s = knobs.model_cooldown_s or 0.0

    @property
    def primary(self) -> str:
        """The model that is asked while nothing is wrong."""
        return self.models[0].name

    @property
    def is_calm(self) -> bool:
        """Whether no overload is being counted and the primary is asked."""
        return not self._counts and not self._passed_over

    def current(self, now: float, needs: Needs = NO_NEEDS, order: Order = None) -> str:
        """The model to ask now: the first that is not passed over and meets the needs, else the primary."""
        return self._first_free(now, needs, order) or self.primary

    def overloaded(self, name: str, now: float, needs: Needs = NO_NEEDS, order: Order = None) -> ModelFallback | None:
        """The model answered that it is overloaded; a fact where that switches to another."""
        if not self.overloads:
            return None
        self._counts[name] = self._counts.get(name, 0) + 1
        is_on_trial = name in self._passed_over
        if self._counts[name] < self.overloads and not is_on_trial:
            return None
        instead = self._first_free(now, needs, order, but=name)
        if instead is None:
            return None  # nobody else can answer this request
        self._passed_over[name] = now
        return ModelFallback(
            from_model=name, to_model=instead, category=Category.OVERLOADED, consecutive=self._counts[name]
        )

    def asked(self, order: Order) -> tuple[Model, ...]:
        """The primary, then the models that a policy names, of those that the code declared."""
        if order is None:
            return self.models
        known = {model.name: model for model in self.models[1:]}
        return (self.models[0], *(known[name] for name in order if name in known))

    def _first_free(self, now: float, needs: Needs, order: Order, *, but: str = "") -> str | None:
        for model in self.models if order is None else self.asked(order):
            since = self._passed_over.get(model.name)
            is_cooling = since is not None and now - since < self.cooldown_s
            if model.name != but and not is_cooling and needs.are_met_by(model):
                return model.name
        return None

    def succeeded(self, name: str) -> bool:
        """The model answered; True where that ends a fallback: the primary is back."""
        self._counts.pop(name, None)
        was_passed_over = self._passed_over.pop(name, None) is not None
        return was_passed_over and name == self.primary
