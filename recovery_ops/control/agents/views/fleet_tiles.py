"""The figures above the list of instances, each a link to the instances that it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from urllib.parse import urlencode

from events.charts.drawing import cells
from events.queries.waits import runs_waiting
from events.wording import listing
from recovery_ops.control.agents.filters import UNREACHABLE
from recovery_ops.control.agents.views.fleet_row import APPLY_ORDER, Row
from recovery_ops.control.dashboard.views.tiles import Tile
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.runs.status import runs_waiting_href
from recovery_ops.rules.enums import ApplyStatus

_YOUNG_S = 600
_UNKNOWN, _SILENCE = "–", "no instance reports"


def fleet_tiles(rows: Sequence[Row], standing: Standing, environment: str, now: datetime) -> list[Tile]:
    """What the fleet comes to, each a link to the instances that it counts. One query."""
    reporting = [row for row in rows if row.agent.is_reachable]
    followers = [row for row in rows if row.agent.is_follower]
    return [
        _reporting(rows, len(reporting)),
        *_obeying(followers, standing.revision),
        _in_use(reporting),
        _waiting(reporting, environment, now),
        _young(reporting),
    ]


def _waiting(reporting: Sequence[Row], environment: str, now: datetime) -> Tile:
    """The same runs as the overview counts: no run twice, and none of which nobody tells any more. One query."""
    waiting = runs_waiting(environment, {row.agent.id for row in reporting}, now=now)
    told = "each has reported its next attempt" if waiting.runs else "no waiting run reported"
    return Tile(
        name="waiting",
        title="Runs waiting on capacity",
        figure=f"{waiting.runs:,}" if reporting else _UNKNOWN,
        unit=f"of {sum(row.agent.runs_in_flight for row in reporting):,} in flight" if reporting else "runs",
        detail=told if reporting else _SILENCE,
        href=runs_waiting_href(),
    )


def _young(reporting: Sequence[Row]) -> Tile:
    young = [row for row in reporting if row.agent.heartbeat_age_s is not None and row.agent.uptime_s < _YOUNG_S]
    return Tile(
        title="Recent starts",
        figure=str(len(young)) if reporting else _UNKNOWN,
        unit="last 10 min",
        detail=(_named(young) or "no restart, no deployment") if reporting else _SILENCE,
        href="?view=grid",
    )


def _reporting(rows: Sequence[Row], reporting: int) -> Tile:
    silent = [row for row in rows if not row.agent.is_reachable]
    return Tile(
        name="agents",
        title="Reporting",
        figure=str(reporting),
        unit=f"of {len(rows)}",
        told={"of": len(rows)},
        detail=f"{_named(silent)} unreachable" if silent else "all reachable",
        href=f"?{urlencode({'state': UNREACHABLE})}" if silent else "?",
        spark=cells([row.mark for row in rows]),
    )


def _obeying(followers: Sequence[Row], revision: int) -> Iterator[Tile]:
    by_apply = {status: [row for row in followers if row.apply is status] for status in APPLY_ORDER}
    pending, silent = len(by_apply[ApplyStatus.PENDING]), len(by_apply[ApplyStatus.UNREACHABLE])
    missing = [f"{count} {word}" for count, word in ((pending, "pending"), (silent, "unreachable")) if count]
    off = [*by_apply[ApplyStatus.FAILED], *by_apply[ApplyStatus.DRIFTED]]
    yield Tile(
        title=f"On revision {revision}",
        figure=str(len(by_apply[ApplyStatus.APPLIED])),
        unit=f"of {len(followers)}",
        detail=", ".join(missing) or "none pending",
        href=f"?{urlencode({'show': (ApplyStatus.PENDING if pending else ApplyStatus.APPLIED).value})}",
    )
    yield Tile(
        title="Drifted or failed",
        figure=_UNKNOWN if followers and silent == len(followers) else str(len(off)),
        unit=f"of {len(followers)}",
        detail=_named(off) or (f"{silent} unknown, unreachable" if silent else "no difference found"),
        href=f"?{urlencode({'show': off[0].shown_by if off else ApplyStatus.DRIFTED.value})}",
    )


def _in_use(reporting: Sequence[Row]) -> Tile:
    versions = Counter(row.agent.version or "no version" for row in reporting)
    common = sorted(versions.items(), key=lambda item: (-item[1], item[0]))
    return Tile(
        title="Versions",
        figure=str(len(versions)),
        unit="in use",
        detail=listing([f"{name} ({count})" for name, count in common], most=2) or _SILENCE,
        href="?view=versions",
    )


def _named(rows: Sequence[Row]) -> str:
    return listing([row.agent.instance for row in rows], most=2)
