"""The policy section `spend_caps`: what model calls may spend per run, source and day, and what happens at a cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem, Setting, fault_of

CHEAPER_MODEL, PARK, ASK = "cheaper_model", "park", "ask"
"""What happens at a cap. Where nothing cheaper is left, or a person does not raise the cap, the run is parked."""

_MOST_CALLS, _MOST_TOKENS, _MOST_USD = 10**9, 10**13, 10**9
_DAY_S = 86_400.0


def _calls(whose: str) -> Setting:
    return Setting(kind="whole", maximum=_MOST_CALLS, brief=f"Model calls of {whose}; 0 is no limit")


def _tokens(whose: str) -> Setting:
    return Setting(kind="whole", maximum=_MOST_TOKENS, brief=f"Tokens of {whose}, in and out; 0 is no limit")


def _dollars(whose: str) -> Setting:
    return Setting(kind="number", maximum=_MOST_USD, unit="USD", brief=f"Dollars of {whose}; 0 is no limit")


SPEND_SETTINGS: dict[str, Setting] = {
    "run_calls": _calls("one run with its children"),
    "run_tokens": _tokens("one run with its children"),
    "run_cost_usd": _dollars("one run with its children"),
    "source_calls": _calls("one query source in a day"),
    "source_tokens": _tokens("one query source in a day"),
    "source_cost_usd": _dollars("one query source in a day"),
    "day_calls": _calls("a day"),
    "day_tokens": _tokens("a day"),
    "day_cost_usd": _dollars("a day"),
    "action": Setting(
        kind="word",
        words=(PARK, CHEAPER_MODEL, ASK),
        brief="Action at a cap: park the run, use a cheaper model, or escalate",
    ),
    "cheaper_share": Setting(kind="number", maximum=0.9, brief="Share of a cap reserved for models after the first"),
    "ask_deadline_s": Setting(
        kind="number",
        minimum=1,
        maximum=30 * _DAY_S,
        unit="s",
        brief="Time of a user to raise a cap before the run is parked",
    ),
    "call_tokens": Setting(kind="whole", maximum=_MOST_TOKENS, brief="Most tokens of one call; 0 is unknown"),
    "call_cost_usd": Setting(
        kind="number", maximum=_MOST_USD, unit="USD", brief="Most dollars of one call; 0 is unknown"
    ),
}
"""Every value of the section, in the order in which forms show them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendCaps:
    """The policy section `spend_caps`. 0 is no limit; a day is a day in UTC."""

    run_calls: int = 0
    run_tokens: int = 0
    run_cost_usd: float = 0.0
    source_calls: int = 0
    source_tokens: int = 0
    source_cost_usd: float = 0.0
    day_calls: int = 0
    day_tokens: int = 0
    day_cost_usd: float = 0.0
    action: str = PARK
    cheaper_share: float = 0.2
    ask_deadline_s: float = 1800.0
    call_tokens: int = 0
    call_cost_usd: float = 0.0

    @property
    def is_on(self) -> bool:
        """Whether anything is limited."""
        runs = self.run_calls or self.run_tokens or self.run_cost_usd
        sources = self.source_calls or self.source_tokens or self.source_cost_usd
        return bool(runs or sources or self.day_calls or self.day_tokens or self.day_cost_usd)


NO_CAPS = SpendCaps()
"""What holds where a document says nothing: no limit."""


def parse_caps(given: object, path: str, problems: list[Problem]) -> SpendCaps:
    """The caps that a JSON object states; what it leaves out is the default. Adds a problem for each fault.

    Keys that are not known are ignored: a newer document may have more.
    """
    if given is None:
        return NO_CAPS
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of caps"))
        return NO_CAPS
    values: dict[str, Any] = {}
    for name, setting in SPEND_SETTINGS.items():
        value = given.get(name)
        fault = fault_of(setting, value) if value is not None else ""
        if fault:
            problems.append(Problem(f"{path}.{name}", fault))
        elif value is not None:
            values[name] = _normal(setting, value)
    return SpendCaps(**values)


def caps_document(caps: SpendCaps) -> dict[str, Any]:
    """The JSON object that `parse_caps` reads back as the same caps."""
    return {part.name: getattr(caps, part.name) for part in fields(SpendCaps)}


def _normal(setting: Setting, value: Any) -> object:
    if setting.kind == "number":
        return float(value)
    return int(value) if setting.kind == "whole" else value
