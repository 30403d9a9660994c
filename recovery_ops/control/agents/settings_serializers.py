"""What an instance goes by beside what is desired of it, as a JSON object."""

from __future__ import annotations

from typing import Any

from recovery_ops.control.agents.effective_settings import InForce, Line, Part
from recovery_ops.control.core.serializers import utc_text


def effective_settings_document(found: InForce, *, operation: str | None = None) -> dict[str, Any]:
    """All parts, or those of one operation; an empty name is the whole process."""
    agent = found.agent
    parts = [part for part in found.parts if operation is None or part.operation == operation]
    return {
        "service": agent.service,
        "instance": agent.instance,
        "revision": agent.revision,
        "desired_revision": found.revision,
        "status": found.status.value,
        "policy": found.policy,
        "clamped": list(agent.clamped),
        "sentence": found.sentence,
        "is_told": bool(found.parts),
        "different": found.different,
        "untold_operations": found.untold,
        "parts": [_of_part(part) for part in parts],
    }


def _of_part(part: Part) -> dict[str, Any]:
    return {
        "operation": part.operation,
        "kind": part.kind,
        "breaker": part.breaker,
        "told_at": utc_text(part.told_at),
        "revision": part.revision,
        "is_past": part.is_past,
        "different": len(part.different),
        "settings": [_of_line(line) for line in part.lines],
    }


def _of_line(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "runs": line.runs,
        "desired": line.desired,
        "unit": line.unit,
        "desired_by": line.by,
        "result": line.word,
        "why": line.why.value,
        "sentence": line.sentence,
    }
