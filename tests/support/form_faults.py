"""What a form that came back finds wrong: by field and code, so that no test depends on a sentence."""

from __future__ import annotations

from typing import Any

from tests.support.html import Shown


def faults_of(answer: Any) -> dict[str, str]:
    """The fields that the page shows as wrong, each with the code of its first fault; empty where a fault has none."""
    shown, found = Shown(answer).ids, answer.context["form"].errors.as_data()
    return {name: faults[0].code or "" for name, faults in found.items() if f"{name}-error" in shown}
