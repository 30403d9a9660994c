"""What a recording shows of an operation that only its code declares: its breaker, its models, its fallbacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from recovery_ops.rules.enums import Adjustment, OnBrokenStream
from recovery_ops.rules.resilience.call_context import model_breaker


@dataclass(slots=True)
class Traits:
    """What the recording tells of an operation that only its code knows."""

    breaker: str
    own_breaker: str = ""
    """Its breaker, as a failure reported it: not that of a model after the first of its chain."""
    kind: str = "operation"
    provider: str = ""
    is_optional: bool = False
    is_foundational: bool = False
    tool: str | None = None
    on_broken_stream: OnBrokenStream = OnBrokenStream.ERROR
    tells_model: bool = False
    """Whether a 401 or 403 was an answer, and did not end the run."""
    fallbacks: list[str] = field(default_factory=list)
    fixes: set[Adjustment] = field(default_factory=set)
    limits: dict[bool, int] = field(default_factory=dict)
    """Retries that were allowed, in foreground (True) and background, where a fact tells."""
    models: list[str] = field(default_factory=list)
    """Those of its chain that a fact names, the first one first."""
    credentials: dict[str, None] = field(default_factory=dict)
    """Labels of the keys that attempts used."""
    counted_attempts: int = 0
    tokens: int = 0

    @property
    def tokens_each(self) -> float | None:
        """Tokens of one attempt on average, where they were counted."""
        return self.tokens / self.counted_attempts if self.counted_attempts and self.tokens else None

    @property
    def breakers(self) -> set[str]:
        """The operation's own breaker, and those of the models after the first."""
        return {self.breaker, *(model_breaker(self.breaker, model) for model in self.models[1:])}

    def model_failed(self, model: str, breaker: str) -> None:
        """Note the model that failed, and its breaker. The first of a chain is the one with the operation's own."""
        is_first = bool(breaker) and not (model and breaker.endswith(model_breaker("", model)))
        if is_first:
            self.own_breaker = self.own_breaker or breaker
        if model and is_first:
            self.models = [model, *(one for one in self.models if one != model)]
        elif model and model not in self.models:
            self.models.append(model)

    def model_switched(self, before: str, after: str) -> None:
        """Note that one model was asked after another."""
        if before and before not in self.models:
            place = self.models.index(after) if after in self.models else len(self.models)
            self.models.insert(place, before)
        if after and after not in self.models:
            self.models.append(after)

    def name_breaker(self, operation: str) -> None:
        """Keep the operation's own breaker, at the end: a fact of a model's breaker may have come first."""
        if self.own_breaker:
            self.breaker = self.own_breaker
        elif self.breaker != operation:
            for model in self.models[1:]:
                self.breaker = self.breaker.removesuffix(model_breaker("", model)) or operation
