"""Three ways to begin a policy: what each changes in the live one, and what that means in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recovery_ops.rules.policy import BUILT_IN_DEFAULTS

_UNTOUCHED = "undeclared"
"""What no code declared stays closed: no template opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A way to begin: `knobs` are put into the defaults of every kind of call; rules that are narrower still win."""

    name: str
    title: str
    effect: str
    knobs: Mapping[str, Any]


TEMPLATES = (
    Template(
        name="patient",
        title="Be patient",
        effect="Five retries where somebody waits, up to a minute apart: more calls succeed in the end, answers come "
        "later, and a provider in trouble is asked more often.",
        knobs={"max_retries": 5, "base_delay_s": 1.0, "delay_cap_s": 60.0, "retry_capacity_errors": True},
    ),
    Template(
        name="swift",
        title="Answer soon",
        effect="One retry, then the fallback, if the code declares one: answers come sooner, and more of them are "
        "second best.",
        knobs={"max_retries": 1, "max_retries_background": 1, "fallback_allowed": True},
    ),
    Template(
        name="sparing",
        title="Spare the provider",
        effect="No retry of 429 and 529; a breaker opens when three in ten calls fail, and stays open for a minute: "
        "least load on what struggles, and more calls fail or fall back.",
        knobs={"retry_capacity_errors": False, "failure_rate_threshold": 0.3, "wait_duration_in_open_s": 60.0},
    ),
)


def begun_with(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A document with what a template says in its defaults; unchanged where there is no such template."""
    template = next((one for one in TEMPLATES if one.name == name), None)
    if template is None:
        return dict(document)
    said = document.get("defaults")
    defaults = dict(said) if isinstance(said, Mapping) else {}
    for kind in BUILT_IN_DEFAULTS:
        if kind != _UNTOUCHED:
            defaults[kind] = {**defaults.get(kind, {}), **template.knobs}
    return {**document, "defaults": defaults}
