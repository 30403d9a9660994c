"""When a version was told: the first and last moments of facts, which are the same in whatever order they come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from events.ingest.records import AgentName, Row
from events.models import NAME_CHARS
from events.projections.stated import text_of
from recovery_ops.wire import names

_MINUTE_US = 60_000_000


class VersionName(NamedTuple):
    """One version of one service."""

    environment: str
    service: str
    version: str


class Told(NamedTuple):
    """The columns of `ServiceVersion`."""

    first_us: int
    last_us: int
    beat_us: int

    def joined(self, other: Told) -> Told:
        """What both say together."""
        return Told(
            min(self.first_us, other.first_us), max(self.last_us, other.last_us), max(self.beat_us, other.beat_us)
        )


Versions = dict[VersionName, Told]


def add_versions(versions: Versions, agent: AgentName, rows: Iterable[Row]) -> None:
    """Add what an instance's facts tell of its version; those that tell none say nothing."""
    mine: dict[object, list[int]] = {}
    for row in rows:
        version = row.attributes.get(names.SERVICE_VERSION)
        if not version:
            continue
        if not isinstance(version, str):
            version = text_of(version, NAME_CHARS)
        at_us, known = row.at_us, mine.get(version)
        if known is None:
            known = mine[version] = [at_us, at_us, 0]
        elif at_us > known[1]:
            known[1] = at_us
        elif at_us < known[0]:
            known[0] = at_us
        if row.event == "instance_heartbeat" and at_us > known[2]:
            known[2] = at_us
    for version, (first_us, last_us, beat_us) in mine.items():
        name = VersionName(agent.environment, agent.service, text_of(version, NAME_CHARS))
        join_told(versions, name, first_us, last_us, beat_us)


def join_told(versions: Versions, name: VersionName, first_us: int, last_us: int, beat_us: int | None) -> None:
    """Add the first and last moments at which a version was told, the last of a heartbeat if there was one."""
    told = Told(first_us, _minute(last_us), _minute(beat_us or 0))
    earlier = versions.get(name)
    versions[name] = told if earlier is None else earlier.joined(told)


def _minute(at_us: int) -> int:
    return at_us - at_us % _MINUTE_US
