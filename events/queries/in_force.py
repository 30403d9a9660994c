"""What instances really go by, as they said it themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from events.models import Agent, SettingsInForce
from events.moments import from_us
from events.queries.fleet import NAMELESS, agent_row
from events.rows import AgentRow, SettingsRow


def agent_named(environment: str, service: str, instance: str, *, now: datetime) -> AgentRow | None:
    """One instance, however long it was silent; None for one that never reported. Index `agent_once`."""
    names = {"environment": environment, "service": service, "instance": "" if instance == NAMELESS else instance}
    found = Agent.objects.filter(**names).first()
    return None if found is None else agent_row(found, now)


def settings_in_force(agent_id: int) -> list[SettingsRow]:
    """What the process says of itself first, then its operations by name. One query; index `settings_once`."""
    return [_row(one) for one in SettingsInForce.objects.filter(agent_id=agent_id).order_by("operation")]


def _row(one: SettingsInForce) -> SettingsRow:
    stated = _map(json.loads(one.stated))
    return SettingsRow(
        operation=one.operation,
        at=from_us(one.at_us),
        revision=one.revision,
        version=one.version,
        kind=one.kind,
        breaker=one.breaker,
        count=one.count,
        settings=_map(stated.get("settings")),
        in_code=_map(stated.get("in_code")),
        held=_map(stated.get("held")),
    )


def _map(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}
