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
    """A stretch of the script; services that are not named have the spell of `others`.

    `first` says how the first requests of a service end, before chance has a word: what nobody may miss.
    """

    name: str
    lasts_s: float
    services: dict[str, Spell] = field(default_factory=dict)
    others: Spell = field(default_factory=Spell)
    first: dict[str, tuple[str, ...]] = field(default_factory=dict)


_DAILY = Spell({"timeout": 0.004, "500": 0.008, "bad_json": 0.004})
_MAIL_DAILY = Spell({"500": 0.008, "refused": 0.03, "odd": 0.02})
_CRM_DAILY = Spell({"409": 0.03, "412": 0.02, "500": 0.005}, latency_s=0.05)
_LARGE_DAILY = Spell({"500": 0.005, "overflow": 0.03, "bad_json": 0.005}, latency_s=0.15)
_AFTERWARDS = {"crm": _CRM_DAILY, "large": _LARGE_DAILY, "mail": _MAIL_DAILY}

EMBED_BAD, EMBED_WELL = "embed-eu-central-1", "embed-us-east-1"
"""One backend in two regions: the first goes bad with the overload, the second never does."""

ALWAYS = {
    EMBED_WELL: Spell(latency_s=0.02),
    "ledger": Spell({"409": 0.42}, latency_s=0.03),
    "archive": Spell(latency_s=0.02),
    "payments": Spell({"reset": 1.0}, latency_s=0.05),
    "closing": Spell(latency_s=0.03),
    "translate": Spell(latency_s=0.03),
}
"""What is the same in every phase: a row that everybody wants at once is asked for again and again, every other record
of the archive is gone, a payment is made but its answer is lost, and a book closes when it is asked the third time."""

LOOSE = "loose"
"""Two requests of three fail, in turn."""

SCRIPT: tuple[Phase, ...] = (
    Phase("healthy", 20.0, {"crm": _CRM_DAILY, "large": _LARGE_DAILY}, _DAILY),
    Phase(
        "rate limits",
        30.0,
        {"large": Spell({"429": 0.5}, 0.12), "search": Spell({"429": 0.35}), "crm": _CRM_DAILY},
        _DAILY,
    ),
    Phase(
        "healthy",
        20.0,
        {"crm": _CRM_DAILY, "large": _LARGE_DAILY},
        _DAILY,
        first={"mail": ("odd", "refused"), "crm": ("odd",)},
    ),
    Phase("quota spent", 15.0, {"prices": Spell({"quota": 1.0}), "crm": _CRM_DAILY, "large": _LARGE_DAILY}, _DAILY),
    Phase(
        "overload",
        70.0,
        {
            "large": Spell({"529": 0.9}, 0.3),
            "search": Spell({"529": 0.75}),
            "small": Spell({"529": 0.05}, 0.1),
            EMBED_BAD: Spell({"503": 0.9}),
        },
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
    # Long enough that an outage is over before the next begins: what comes back within five minutes is the same one.
    Phase("healthy", 45.0, _AFTERWARDS, _DAILY, first={"prices": ("resting",)}),
    Phase("loose wire", 75.0, {**_AFTERWARDS, "translate": Spell({LOOSE: 1.0}, 0.03)}, _DAILY),
    Phase("healthy", 210.0, _AFTERWARDS, _DAILY),
)


LASTS_S = sum(phase.lasts_s for phase in SCRIPT)
"""Less than ten minutes: whoever looks for so long has seen all of it."""


def phase_at(elapsed_s: float) -> tuple[int, Phase]:
    """The phase so many seconds after the beginning, and which one it is since then; the script repeats."""
    rounds, at = divmod(elapsed_s, LASTS_S)
    for number, phase in enumerate(SCRIPT):
        if at < phase.lasts_s:
            return int(rounds) * len(SCRIPT) + number, phase
        at -= phase.lasts_s
    return (int(rounds) + 1) * len(SCRIPT) - 1, SCRIPT[-1]


def spell_of(service: str, phase: Phase) -> Spell:
    """How a service behaves in a phase."""
    return phase.services.get(service) or ALWAYS.get(service, phase.others)
