"""The script of the demonstration's provider: what each of its services does at each moment, over and over."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Spell:
    """How one service behaves for a while: the share of requests that end in each way; the rest go well."""

    trouble: dict[str, float] = field(default_factory=dict)
    latency_s: float = 0.08


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the script; services that are not named have the spell of `others`."""

    name: str
    lasts_s: float
    services: dict[str, Spell] = field(default_factory=dict)
    others: Spell = field(default_factory=Spell)


_DAILY = Spell({"timeout": 0.004, "500": 0.008, "bad_json": 0.004})
_CRM_DAILY = Spell({"409": 0.03, "412": 0.02, "500": 0.005}, latency_s=0.05)
_LARGE_DAILY = Spell({"500": 0.005, "overflow": 0.03, "bad_json": 0.005}, latency_s=0.15)

SCRIPT: tuple[Phase, ...] = (
    Phase("healthy", 20.0, {"crm": _CRM_DAILY, "large": _LARGE_DAILY}, _DAILY),
    Phase(
        "rate limits",
        30.0,
        {"large": Spell({"429": 0.5}, 0.12), "search": Spell({"429": 0.35}), "crm": _CRM_DAILY},
        _DAILY,
    ),
    Phase("healthy", 20.0, {"crm": _CRM_DAILY, "large": _LARGE_DAILY}, _DAILY),
    Phase(
        "overload",
        70.0,
        {"large": Spell({"529": 0.9}, 0.3), "search": Spell({"529": 0.75}), "small": Spell({"529": 0.05}, 0.1)},
        _DAILY,
    ),
    Phase(
        "outage",
        40.0,
        {
            "search": Spell({"reset": 0.6, "timeout": 0.3}),
            "prices": Spell({"reset": 0.5, "503": 0.4}),
            "crm": Spell({"500": 0.4, "cut": 0.2}),
            "mail": Spell({"timeout": 0.3, "503": 0.3}),
            "large": Spell({"529": 0.6, "reset": 0.2}, 0.3),
        },
        Spell({"500": 0.1}),
    ),
    Phase("recovery", 30.0, {"large": Spell({"529": 0.12}, 0.2), "search": Spell({"500": 0.05})}, _DAILY),
    Phase("healthy", 60.0, {"crm": _CRM_DAILY, "large": _LARGE_DAILY}, _DAILY),
)


def spell_at(service: str, elapsed_s: float, script: tuple[Phase, ...] = SCRIPT) -> tuple[str, Spell]:
    """The phase and the behaviour of a service so many seconds after the beginning; the script repeats."""
    at = elapsed_s % sum(phase.lasts_s for phase in script)
    for phase in script:
        if at < phase.lasts_s:
            return phase.name, phase.services.get(service, phase.others)
        at -= phase.lasts_s
    return script[-1].name, script[-1].others
