"""What a figure is about: calls to a provider or a model, instances of a service, annotations with a tag. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from events.pages.narrowing import Narrowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow(Narrowed):
    """What is asked for; empty asks for nothing."""

    provider: str = ""
    model: str = ""
    service: str = ""
    tag: str = ""

    @property
    def of_calls(self) -> dict[str, str]:
        """What of it sums of calls are narrowed by."""
        return {name: value for name, value in self.said.items() if name != "tag"}

    @property
    def is_of_backend(self) -> bool:
        """Whether a provider or a model is asked for."""
        return bool(self.provider or self.model)

    @property
    def notes(self) -> dict[str, str]:
        """What is to be said beside bands, by their names, because not everything is told by provider or by model."""
        if self.model:
            told = "Successful calls are not recorded by model."
            return {"capacity": told, "breakers": "Only breakers with a failure of the model."}
        whose = "Only breakers of the provider."
        return {"rejections": whose} if self.provider else {}

    def concerns(self, breaker: str, named: Collection[str]) -> bool:
        """Whether what is about a breaker (empty: all) is shown; `named` are those that called the backend."""
        return not self.is_of_backend or not breaker or breaker in named


EVERY = Narrow()
