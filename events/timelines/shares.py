"""The band of one breaker's rolling window: the share that failed, the limit, and how each probe went."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from events.rows import Bins, Transition
from events.timelines.charts import AT, Band, Table, Trace, Trail, Value, to_ms
from events.timelines.counts import steps, unknown_columns, unknown_words
from events.wording import bin_text, clock_text, count_text, share_text
from recovery_ops.rules.enums import Trigger

WELL, ILL, LOST = "succeeded", "failed", "unanswered"
_WENT = {Trigger.PROBE_SUCCEEDED: WELL, Trigger.PROBE_FAILED: ILL, Trigger.PROBE_ABANDONED: LOST}
_WHOLE = 100.0
_PROBE_Y = {WELL: 8.0, ILL: 92.0, LOST: 92.0}
"""Where a probe stands, in per cent: its own share of failures, a little inside of the band."""
_SYMBOL = {WELL: "circle", ILL: "diamond", LOST: "triangle-up"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """By bin: how many attempts failed in a way that a breaker counts, and how many went well. `limit` is a share."""

    bins: Bins
    failures: Sequence[int]
    successes: Sequence[int]
    limit: float | None
    probes: Sequence[Transition] = field(default=())

    @staticmethod
    def of(
        failures: Bins,
        successes: Sequence[int],
        *,
        counting: Collection[str],
        limit: float | None,
        moves: Collection[Transition],
    ) -> Shares:
        """Out of failures by category, of which these count, and the moves of the same time."""
        counted = [0] * failures.length
        for category, values in failures.series.items():
            if category in counting:
                counted = [one + more for one, more in zip(counted, values, strict=True)]
        probes = sorted((one for one in moves if one.trigger in _WENT), key=lambda one: one.at)
        return Shares(bins=failures, failures=counted, successes=successes, limit=limit, probes=probes)

    def share(self, place: int) -> float | None:
        """The share that failed in a bin; None where nothing was told that counts."""
        calls = self.failures[place] + self.successes[place]
        return self.failures[place] / calls if calls and not self.bins.unknown[place] else None

    @property
    def highest(self) -> int | None:
        """The bin with the highest share, the first of several; None where there is none at all."""
        known = [(share, -place) for place in range(self.bins.length) if (share := self.share(place)) is not None]
        return -max(known)[1] if known else None


def shares_band(shares: Shares, *, label: str) -> Band:
    """A step line of the share that failed, the limit dashed, a mark for each probe: low where it went well."""
    bins = shares.bins
    percents = [None if (one := shares.share(place)) is None else 100 * one for place in range(bins.length)]
    newest = percents[-1]
    return Band(
        key="shares",
        title=f"Counted failures per {bin_text(bins.bin_s)}, in % of attempts",
        label=label,
        top=_WHOLE,
        value="–" if newest is None else share_text(newest / 100),
        traces=(_line(percents, bins), *_limit(shares), *_probes(shares), *unknown_columns(bins, _WHOLE)),
        table=_table(shares),
        caption=_caption(shares),
    )


def probes_table(shares: Shares) -> Table:
    """How each probe of the range went, the oldest first."""
    end = shares.bins.starts()[-1]
    rows = tuple((clock_text(one.at, today=end), f"{one.service}/{one.instance}", _went(one)) for one in shares.probes)
    trails = tuple(Trail(start=one.at, end=one.at, breaker=one.breaker, fact_id=one.fact_id) for one in shares.probes)
    return Table(title="Probes", columns=("At", "Instance", "It"), rows=rows, trails=trails)


def _line(percents: Sequence[float | None], bins: Bins) -> Trace:
    moments, values = steps([None if one is None else round(one, 2) for one in percents], bins)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "failure share",
        "x": moments,
        "y": values,
        "meta": bins.bin_s * 1000,
        "line": {"color": "token:--ink-2", "width": 1.5, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": "token:--ink/6",
        "connectgaps": False,
        "hovertemplate": f"%{{y:.0f}} % failed{AT}<extra></extra>",
    }


def _limit(shares: Shares) -> list[Trace]:
    if shares.limit is None:
        return []
    starts, bins = shares.bins.starts(), shares.bins
    end = starts[-1] + timedelta(seconds=bins.bin_s)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "limit",
            "x": [to_ms(starts[min(bins.absent, bins.length - 1)]), to_ms(end)],
            "y": [100 * shares.limit] * 2,
            "meta": bins.bin_s * 1000,
            "line": {"color": "token:--ink-2", "width": 1, "dash": "dash"},
            "hovertemplate": f"limit {share_text(shares.limit)}<extra></extra>",
        }
    ]


def _probes(shares: Shares) -> list[Trace]:
    traces = []
    for went, symbol in _SYMBOL.items():
        some = [one for one in shares.probes if _went(one) == went]
        if some:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"probe {went}",
                    "x": [to_ms(one.at) for one in some],
                    "y": [_PROBE_Y[went]] * len(some),
                    "meta": 1000,
                    "marker": {
                        "symbol": symbol,
                        "size": 9,
                        "color": "token:--panel",
                        "line": {"color": "token:--ink", "width": 1.5},
                    },
                    "hovertemplate": f"a probe {went}{AT}<extra></extra>",
                }
            )
    return traces


def _went(one: Transition) -> str:
    return _WENT.get(one.trigger, "") if one.trigger is not None else ""


def _table(shares: Shares) -> Table:
    """One row per bin in which something counted, or nothing is known."""
    rows: list[tuple[Value, ...]] = []
    trails: list[Trail] = []
    bins, starts = shares.bins, shares.bins.starts()
    for place, start in enumerate(starts):
        share = shares.share(place)
        if place < bins.absent or (share is None and not bins.unknown[place]):
            continue
        told: tuple[Value, ...] = ("unknown",) * 3
        if share is not None:
            told = (shares.failures[place], shares.successes[place], share_text(share))
        rows.append((clock_text(start, today=starts[-1]), *told))
        trails.append(Trail(start=start, end=start + timedelta(seconds=bins.bin_s)))
    limit = "" if shares.limit is None else f", limit {share_text(shares.limit)}"
    title = f"Share of counted failures per {bin_text(bins.bin_s)}{limit}"
    return Table(title=title, columns=("From", "Failed", "Succeeded", "Share"), rows=tuple(rows), trails=tuple(trails))


def _caption(shares: Shares) -> str:
    bins, place = shares.bins, shares.highest
    if place is None:
        return f"No attempt{unknown_words(bins)}."
    starts = bins.starts()
    highest = shares.share(place) or 0.0
    words = f"Highest share of counted failures per {bin_text(bins.bin_s)} {share_text(highest)}"
    words += f", at {clock_text(starts[place], today=starts[-1])}" if highest else ""
    words += f"; the limit is {share_text(shares.limit)}" if shares.limit is not None else "; no limit"
    return f"{words}{_probed(shares)}{unknown_words(bins)}. Each instance counts its own calls."


def _probed(shares: Shares) -> str:
    if not shares.probes:
        return ""
    well = sum(_went(one) == WELL for one in shares.probes)
    return f"; of {count_text(len(shares.probes), 'probe')} {well} succeeded"
