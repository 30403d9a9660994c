"""Journeys as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.journeys import dispatching, running
from tests.journeys.playing import FOLDER, Alone, Told

JOURNEYS = sorted(FOLDER.glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def alone(journey: dict[str, Any]) -> Told:
    """The journey as the rules replay it."""
    kind = journey.get("kind", "calls")
    if kind == "run":
        return running.AloneWithGuards(journey).play()
    return dispatching.alone(journey) if kind == "dispatch" else Alone(journey).play()
