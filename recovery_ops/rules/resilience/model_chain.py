"""A chain of models: the next one is asked where the first is used up, and for a time after overloads in a row.

One chain is shared by all calls of a process that ask for the same first model. It is told the time and takes no lock,
like a breaker, and is independent of it: both may act at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.classification.retry_after import meant_s
from recovery_ops.rules.enums import CAPACITY, Category
from recovery_ops.rules.events import ModelFallback
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings
from recovery_ops.rules.policy.settings import SETTINGS, fault_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of a `ModelChain` with its limits: `has_tools`, and `context_tokens` (None: no limit).

    A request that needs more skips it. `can_continue`: it can continue the answer of another model, for guards with
    `on_broken_stream="continue"`. Rules: docs/guide/models.md

    >>> chain = ModelChain("large", Model(name="small", context_tokens=8000), "other")
    >>> chain.failed("large", TimeoutError(), Needs(context_tokens=20_000))
    'other'
    """

    name: str
    has_tools: bool = True
    context_tokens: int | None = None
    """None: as large as any request."""
    can_continue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Needs of a request: `tools`, and the tokens of its context. The function `needs` of a guard returns it.

    Rules: docs/guide/models.md

    >>> Needs(context_tokens=20_000).are_met_by(Model(name="small", context_tokens=8000))
    False
    """

    tools: bool = False
    context_tokens: int = 0

    def are_met_by(self, model: Model) -> bool:
        """Whether the model can answer such a request."""
        is_large_enough = model.context_tokens is None or model.context_tokens >= self.context_tokens
        return is_large_enough and (model.has_tools or not self.tools)


NO_NEEDS = Needs()
NOT_FOUND = "model_not_found"
_OF_THE_REQUEST = frozenset({Category.INVALID_REQUEST, Category.AUTH, Category.PERMISSION, Category.SCHEMA_MISMATCH})
"""Answers of one model to one request that another model, with its own key and interface, may not give."""
_AT_ONCE = _OF_THE_REQUEST | {
    *(Category.TIMEOUT, Category.CONTEXT_OVERFLOW, Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED)
}
"""A second request to the same model would fail alike."""
_USED_UP = frozenset(
    {
        *(Category.NETWORK, Category.TIMEOUT, Category.SERVER_ERROR, Category.OVERLOADED, Category.RATE_LIMITED),
        *(Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED, Category.CONFLICT, *_OF_THE_REQUEST),
    }
)
"""Failures of one model, after its retries, that another model may not have."""
SPENT = frozenset({Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED})
"""Every further call fails alike until the allowance is renewed: the backend rests meanwhile."""


def is_not_there(failure: Failure) -> bool:
    """Whether the provider does not know the model. A missing file or key is not that."""
    return failure.category is Category.NOT_FOUND and (failure.status_code == 404 or failure.code == NOT_FOUND)


Order = tuple[str, ...] | None
"""What a policy says of the models after the primary: which, and in which order. None: nothing."""


class ModelChain:
    """Primary → a → b. `models` are names, or `Model`s where a fallback cannot do all that the first can.

    After `overloads` consecutive overloads of the model that is asked, the next that meets the request's needs is
    asked; a success resets the count. The primary is tried again after `cooldown_s`: one overload then is enough to
    go back, one success ends the fallback.
    """

    def __init__(self, *models: str | Model, overloads: int = 3, cooldown_s: float = 60.0) -> None:
        said: tuple[object, ...] = models
        for one in said:
            if not one or not isinstance(one, str | Model):
                raise ValueError(f"a model of a chain is a name or a Model, not {one!r}")
        self.models = tuple(one if isinstance(one, Model) else Model(name=one) for one in models)
        if not self.models:
            raise ValueError("a chain needs at least one model")
        if len({one.name for one in self.models}) != len(self.models):
            raise ValueError("a model stands twice in the chain")
        if fault := fault_of(SETTINGS["model_fallback_after"], overloads):
            raise ValueError(f"overloads {fault}, not {overloads!r}")
        if fault := fault_of(SETTINGS["model_cooldown_s"], cooldown_s):
            raise ValueError(f"cooldown_s {fault}, not {cooldown_s!r}")
        self.overloads = overloads
        self.cooldown_s = cooldown_s
        self.quota_rest_s = FAIL_CLOSED.quota_rest_s or 0.0
        self._counts: dict[str, int] = {}
        self._passed_over: dict[str, float] = {}
        """Models that are not asked, and since when."""
        self._rests: dict[str, float] = {}
        """Models whose allowance is spent or whose server named a time, and until when."""

    def configure(self, settings: Settings) -> None:
        """New numbers; what was counted stays."""
        self.overloads = settings.model_fallback_after or 0
        self.cooldown_s = settings.model_cooldown_s or 0.0
        self.quota_rest_s = settings.quota_rest_s or 0.0

    @property
    def primary(self) -> str:
        """The model that is asked while nothing is wrong."""
        return self.models[0].name

    @property
    def is_on_fast_path(self) -> bool:
        """Whether no overload is being counted and the primary is asked."""
        return not self._counts and not self._passed_over and not self._rests

    def current(self, now: float, needs: Needs = NO_NEEDS, order: Order = None) -> str:
        """The model to ask now: the first that is not passed over and meets the needs, else the primary."""
        return self.first_free(now, needs, order) or self.primary

    def needs_after(self, name: str, failure: Failure, needs: Needs) -> Needs | None:
        """What another model must offer to answer what `name` failed to; None where another would fail alike."""
        if failure.category is Category.CONTEXT_OVERFLOW:
            counts = failure.overflow
            own = next((model.context_tokens for model in self.models if model.name == name), None) or 0
            taken = max(own, counts.input_tokens, counts.limit_tokens) if counts else own
            return replace(needs, context_tokens=max(needs.context_tokens, taken + 1 if taken else 0))
        return needs if failure.category in _USED_UP or is_not_there(failure) else None

    def overloaded(
        self,
        name: str,
        now: float,
        needs: Needs = NO_NEEDS,
        order: Order = None,
        *,
        but: AbstractSet[str] = frozenset(),
    ) -> ModelFallback | None:
        """The model answered that it is overloaded; an event where that switches to another, which is none of `but`."""
        if not self.overloads:
            return None
        self._counts[name] = self._counts.get(name, 0) + 1
        is_on_trial = name in self._passed_over
        if self._counts[name] < self.overloads and not is_on_trial:
            return None
        instead = self.first_free(now, needs, order, but=but | {name})
        if instead is None:
            return None  # nobody else can answer this request
        self._passed_over[name] = now
        return _switch(name, instead, Category.OVERLOADED, self._counts[name])

    def used_up(
        self, name: str, failure: Failure, now: float, needs: Needs = NO_NEEDS, order: Order = None
    ) -> ModelFallback | None:
        """A request of the model failed, in a loop without retries of ours: an event where another model is asked.

        A spent allowance, a model that is not there and a throttled one whose server names a time rest it at once; a
        timeout, an overflow and a refused request send only this request to another; every other failure of the
        service does so after `overloads` in a row.
        """
        wanted = self.needs_after(name, failure, needs)
        if wanted is None:
            return None
        category, named_s = failure.category, meant_s(failure.retry_after_s)
        is_throttled = category in CAPACITY and named_s > 0
        if category in _AT_ONCE or category is Category.NOT_FOUND or is_throttled:
            instead = self.first_free(now, wanted, order, but={name})
            if instead is not None and (category in SPENT or category is Category.NOT_FOUND or is_throttled):
                rest_s = named_s or (self.quota_rest_s if category in SPENT else self.cooldown_s)
                self._rests[name] = max(now + rest_s, self._rests.get(name, now))
            return None if instead is None else _switch(name, instead, category, self._counts.get(name, 0) + 1)
        event = self.overloaded(name, now, wanted, order)
        return None if event is None else replace(event, category=category)

    def back_in_s(self, now: float) -> float | None:
        """When the primary is asked again; None where it is neither passed over nor at rest."""
        since, until = self._passed_over.get(self.primary), self._rests.get(self.primary)
        if since is None and until is None:
            return None
        return max(
            0.0, (now if since is None else since + self.cooldown_s) - now, (now if until is None else until) - now
        )

    def can_continue(self, name: str | None) -> bool:
        """Whether the entry of a model says that it goes on with the beginning of an answer."""
        return any(model.can_continue for model in self.models if model.name == name)

    def asked(self, order: Order) -> tuple[Model, ...]:
        """The primary, then the models that a policy names, of those that the code declared."""
        if order is None:
            return self.models
        known = {model.name: model for model in self.models[1:]}
        return (self.models[0], *(known[name] for name in order if name in known))

    def first_free(
        self,
        now: float,
        needs: Needs = NO_NEEDS,
        order: Order = None,
        *,
        but: AbstractSet[str] = frozenset(),
        is_ready: Callable[[str], bool] | None = None,
    ) -> str | None:
        """The first of `free` that is ready; None: no model."""
        return next(
            (name for name in self.free(now, needs, order, but=but) if is_ready is None or is_ready(name)), None
        )

    def free(
        self, now: float, needs: Needs = NO_NEEDS, order: Order = None, *, but: AbstractSet[str] = frozenset()
    ) -> Iterator[str]:
        """The models, in order, that are not passed over, meet the needs, and are none of `but`."""
        for model in self.models if order is None else self.asked(order):
            since = self._passed_over.get(model.name)
            is_cooling = since is not None and now - since < self.cooldown_s
            is_cooling |= now < self._rests.get(model.name, now)
            if model.name not in but and not is_cooling and needs.are_met_by(model):
                yield model.name

    def succeeded(self, name: str) -> bool:
        """The model answered; True where that ends a fallback: the primary is back."""
        self._counts.pop(name, None)
        was_resting = self._rests.pop(name, None) is not None
        was_passed_over = self._passed_over.pop(name, None) is not None
        return (was_passed_over or was_resting) and name == self.primary


def _switch(from_model: str, to_model: str, category: Category, consecutive: int) -> ModelFallback:
    return ModelFallback(from_model=from_model, to_model=to_model, category=category, consecutive=consecutive)
