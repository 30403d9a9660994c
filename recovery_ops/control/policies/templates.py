"""Three ways to begin a policy: what each changes in the live one, and what that means in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS

_UNTOUCHED = "undeclared"
"""What no code declared stays closed: no template opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A way to begin: `settings` are put into the defaults of every kind of call; rules that are narrower still win."""

    name: str
    title: str
    effect: str
    settings: Mapping[str, Any]


TEMPLATES = (
    Template(
        name="patient",
        title="More retries",
        effect="Five retries in foreground, up to 60 s apart. More calls succeed, answers take longer, and a failing "
        "provider receives more calls.",
        settings={"max_retries": 5, "base_delay_s": 1.0, "delay_cap_s": 60.0, "retry_capacity_errors": True},
    ),
    Template(
        name="swift",
        title="Fast fallback",
        effect="One retry, then the fallback that the code declares. Answers arrive sooner, and more of them are "
        "degraded.",
        settings={"max_retries": 1, "max_retries_background": 1, "fallback_allowed": True},
    ),
    Template(
        name="sparing",
        title="Low provider load",
        effect="No retry of 429 and 529. A breaker opens at a failure rate of 30 % and stays open for 60 s. The "
        "provider receives less load, and more calls fail or use a fallback.",
        settings={"retry_capacity_errors": False, "failure_rate_threshold": 0.3, "wait_duration_in_open_s": 60.0},
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
            defaults[kind] = {**defaults.get(kind, {}), **template.settings}
    return {**document, "defaults": defaults}
