"""Bands of counts over time: failures as stacked bars, rejections as a line, capacity errors as a heat row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from events.rows import Bins, CapacityBins
from events.timelines.charts import AT, Band, Lane, Table, Trace, Trail, Value, plain, to_ms
from events.wording import bin_text, clock_text, count_text, listing
from recovery_ops.rules.enums import Family

SERIES = ("token:--series-1", "token:--series-2", "token:--series-3", "token:--series-4")
"""Series without a state, in colours that can be told apart in every kind of colour vision."""
By = Literal["category", "family"]

HEAT = ("token:--sunken", "token:--open/18", "token:--open/38", "token:--open/58", "token:--open/78", "token:--open")
LEAST_HEAT = 10
"""The hottest colour stands for at least this many errors in a bin: one 429 is not a storm."""
MOST_SERIES = 4
"""As many as there are colours that can be told apart."""
OTHERS = "other"
UNKNOWN_SHARE = 1 / 12
"""How high the rail of what is not known is, of the whole band."""

_FAMILY_COLOUR = {
    Family.TRANSIENT.value: SERIES[0],
    Family.MODEL_OUTPUT.value: SERIES[1],
    Family.SEMANTIC.value: SERIES[2],
    Family.UNRECOVERABLE.value: SERIES[3],
    Family.UNKNOWN.value: "token:--unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The same bins of an earlier time, to be compared with; `words` say which: `a day earlier`."""

    bins: Bins
    words: str


def failures_band(
    bins: Bins, *, label: str = "all operations", by: By = "family", earlier: Earlier | None = None
) -> Band:
    """Stacked bars per bin, the largest series at the bottom; few series, the rest as `other`. `earlier` is a line."""
    series = _fewer(bins.series)
    total = bins.total()
    top = _top(total, earlier)
    title = f"Failures per {bin_text(bins.bin_s)}, by {by}"
    traces = [
        _bars(name, values, bins, colour=_FAMILY_COLOUR.get(name) or SERIES[place % len(SERIES)])
        for place, (name, values) in enumerate(series.items())
    ]
    return Band(
        key="failures",
        title=title,
        label=label,
        top=top,
        value=_newest(total, bins),
        has_scale=any(total),
        traces=(*traces, *unknown_columns(bins, top), *_earlier_line(earlier, bins)),
        table=_counts_table(title, replace(bins, series=series), earlier=earlier),
        caption=_counts_caption([_words(name) for name in series], total, bins, "failure")
        + _earlier_words(earlier, total),
    )


def blocked_band(bins: Bins, *, label: str = "calls not made") -> Band:
    """The calls that one breaker refused, as bars."""
    bars = _bars(label, bins.total(), bins, colour=SERIES[0])
    line = rejections_band(bins, label=label)
    return replace(line, traces=(bars, *unknown_columns(bins, line.top)))


def rejections_band(bins: Bins, *, label: str = "calls not made", earlier: Earlier | None = None) -> Band:
    """A step line of the calls that were refused, all breakers together; each breaker in the table."""
    total = bins.total()
    top = _top(total, earlier)
    title = f"Rejected calls per {bin_text(bins.bin_s)}"
    moments, values = _known_steps(total, bins)
    line: Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": moments,
        "y": values,
        "meta": bins.bin_s * 1000,
        "line": {"color": "token:--ink-2", "width": 1.5, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": "token:--ink/6",
        "connectgaps": False,
        "hovertemplate": f"%{{y:,}} rejected calls{AT}<extra></extra>",
    }
    return Band(
        key="rejections",
        title=title,
        label=label,
        top=top,
        value=_newest(total, bins),
        has_scale=any(total),
        traces=(line, *unknown_columns(bins, top), *_earlier_line(earlier, bins)),
        table=_counts_table(title, bins, earlier=earlier),
        caption=_counts_caption(list(bins.series), total, bins, "rejected call") + _earlier_words(earlier, total),
    )


def _top(total: Sequence[int], earlier: Earlier | None) -> float:
    return float(max([*total, *(earlier.bins.total() if earlier is not None else ()), 1]))


def _earlier_line(earlier: Earlier | None, bins: Bins) -> list[Trace]:
    """What was counted then, where it would lie now; nothing where nobody lived to report it."""
    if earlier is None:
        return []
    moments, values = _known_steps(earlier.bins.total(), replace(bins, unknown=earlier.bins.unknown))
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": earlier.words,
            "x": moments,
            "y": values,
            "meta": bins.bin_s * 1000,
            "line": {"color": "token:--ink", "width": 1.5, "dash": "dot", "shape": "hv"},
            "connectgaps": False,
            "hovertemplate": f"{earlier.words}: %{{y:,}}{AT}<extra></extra>",
        }
    ]


def _earlier_words(earlier: Earlier | None, total: Sequence[int], *, is_drawn: bool = True) -> str:
    if earlier is None:
        return ""
    if earlier.bins.absent == earlier.bins.length:
        return f" {earlier.words.capitalize()} no instance existed yet."
    how = " (dotted)" if is_drawn else ""
    words = f" {earlier.words.capitalize()}{how} it was {sum(earlier.bins.total()):,} instead of {sum(total):,}"
    return f"{words}{unknown_words(earlier.bins)}."


def capacity_band(bins: CapacityBins, *, earlier: Earlier | None = None) -> Band:
    """A heat row per provider and model; six steps of one hue, zero is a sunken cell and unknown a dotted one.

    `earlier` is a column of the table and a sentence.
    """
    names = list(bins.series)
    title = f"Capacity, 429 and 529 per {bin_text(bins.bin_s)}"
    return Band(
        key="capacity",
        title=title,
        lanes=tuple(Lane(name=name, value=_newest(bins.series[name], bins)) for name in names),
        traces=(_heat(bins), *_unknown_cells(bins)) if names else (),
        table=_counts_table(title, bins, _kinds(bins), earlier=earlier),
        caption=_capacity_caption(bins) + _earlier_words(earlier, bins.total(), is_drawn=False),
    )


def heat_step(count: int, hottest: int) -> int:
    """0 for none, else 1 … 5 in equal shares of the hottest bin (at least `LEAST_HEAT`)."""
    return 0 if count <= 0 else min(5, 1 + 5 * (count - 1) // max(hottest, LEAST_HEAT))


def _heat(bins: CapacityBins) -> Trace:
    hottest = max((max(values) for values in bins.series.values()), default=0)
    steps = len(HEAT)
    scale = [[(place + edge) / steps, colour] for place, colour in enumerate(HEAT) for edge in (0, 1)]
    kinds = [(bins.rate_limited[name], bins.overloaded[name]) for name in bins.series]
    return {
        "type": "heatmap",
        "x": [to_ms(start) for start in bins.starts()],
        "xperiod": bins.bin_s * 1000,
        "meta": bins.bin_s * 1000,
        "xperiodalignment": "middle",
        "y": [plain(name) for name in bins.series],
        "z": [
            [None if gap else heat_step(count, hottest) for count, gap in zip(values, bins.unknown, strict=True)]
            for values in bins.series.values()
        ],
        "zmin": -0.5,
        "zmax": steps - 0.5,
        "colorscale": scale,
        "showscale": False,
        "xgap": 1,
        "ygap": 6,
        "customdata": [[list(pair) for pair in zip(*both, strict=True)] for both in kinds],
        "hoverongaps": False,
        "hovertemplate": f"%{{y}}<br>%{{customdata[0]:,}} × 429, %{{customdata[1]:,}} × 529{AT}<extra></extra>",
    }


def _bars(name: str, values: Sequence[int], bins: Bins, *, colour: str) -> Trace:
    return {
        "type": "bar",
        "name": name,
        "x0": to_ms(bins.start),
        "dx": bins.bin_s * 1000,
        "meta": bins.bin_s * 1000,
        "y": list(values),
        # From the start of its bin on, so that the hover names that moment and not the middle.
        "offset": bins.bin_s * 20,
        "width": bins.bin_s * 960,
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertemplate": f"{plain(_words(name))} %{{y:,}}{AT}<extra></extra>",
    }


def _known_steps(values: Sequence[int], bins: Bins) -> tuple[list[int], list[float | None]]:
    """The points of a step line of counts, of which those of bins that nobody lived to report say nothing."""
    return steps([None if gap else value for value, gap in zip(values, bins.unknown, strict=True)], bins)


def steps(values: Sequence[float | None], bins: Bins) -> tuple[list[int], list[float | None]]:
    """The points of a step line: each value holds until its bin ends, and nothing is drawn where nothing is known."""
    at: list[int] = []
    found: list[float | None] = []
    first, width = to_ms(bins.start), bins.bin_s * 1000
    for index, value in enumerate(values):
        if value is not None:
            at += (first + index * width, first + (index + 1) * width)
            found += (value, value)
        elif found and found[-1] is not None:
            at.append(first + index * width)
            found.append(None)
    return at, found


def unknown_columns(bins: Bins, top: float) -> list[Trace]:
    """A hatched rail at the foot where nobody lived to report: as a column it would look like the most of all."""
    spans = bins.gaps()
    if not spans:
        return []
    return [
        {
            "type": "bar",
            "name": "unknown",
            "x": [to_ms(bins.start) + (first + last + 1) * bins.bin_s * 500 for first, last in spans],
            "y": [top * UNKNOWN_SHARE] * len(spans),
            "base": [0] * len(spans),
            "width": [(last - first + 1) * bins.bin_s * 1000 for first, last in spans],
            "marker": _UNKNOWN,
            "hovertemplate": "no instance reported<extra></extra>",
        }
    ]


def _unknown_cells(bins: Bins) -> list[Trace]:
    spans = [(name, first, last) for name in bins.series for first, last in bins.gaps()]
    if not spans:
        return []
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": "unknown",
            "y": [plain(name) for name, _, _ in spans],
            "base": [to_ms(bins.start) + first * bins.bin_s * 1000 for _, first, _ in spans],
            "x": [(last - first + 1) * bins.bin_s * 1000 for _, first, last in spans],
            "width": 18 / 24,
            "marker": _UNKNOWN,
            "hovertemplate": "no instance reported<extra></extra>",
        }
    ]


_UNKNOWN = {
    "color": "token:--sunken",
    "line": {"width": 0},
    "pattern": {"shape": ".", "fgcolor": "token:--unknown", "fillmode": "overlay", "size": 8, "solidity": 0.15},
}


def _fewer(series: dict[str, list[int]]) -> dict[str, list[int]]:
    """The largest series, and the sum of all others."""
    if len(series) <= MOST_SERIES:
        return series
    names = list(series)
    rest = [sum(values) for values in zip(*(series[name] for name in names[MOST_SERIES - 1 :]), strict=True)]
    return {name: series[name] for name in names[: MOST_SERIES - 1]} | {OTHERS: rest}


def _words(name: str) -> str:
    return name.replace("_", " ")


def _newest(values: Sequence[int], bins: Bins) -> str:
    return "unknown" if bins.unknown[-1] else f"{values[-1]:,}"


def _kinds(bins: CapacityBins) -> dict[str, list[int]]:
    """Both kinds of each backend, as the table has them."""
    return {
        f"{name}, {code}": kind[name]
        for name in bins.series
        for code, kind in (("429", bins.rate_limited), ("529", bins.overloaded))
    }


def _counts_table(
    title: str, bins: Bins, series: dict[str, list[int]] | None = None, *, earlier: Earlier | None = None
) -> Table:
    """One row per bin in which something was counted or nothing is known; what is left out is zero."""
    shown = bins.series if series is None else series
    rows: list[tuple[Value, ...]] = []
    trails: list[Trail] = []
    starts = bins.starts()
    for index, start in enumerate(starts):
        counts: list[Value] = [values[index] for values in shown.values()]
        then = _then(earlier, index)
        if index < bins.absent or not (bins.unknown[index] or any(counts) or any(then)):
            continue
        told = ["unknown"] * len(counts) if bins.unknown[index] else counts
        rows.append((clock_text(start, today=starts[-1]), *told, *then))
        trails.append(Trail(start=start, end=start + timedelta(seconds=bins.bin_s)))
    columns = ("From", *shown, *([earlier.words] if earlier is not None else ()))
    return Table(title=title, columns=columns, rows=tuple(rows), trails=tuple(trails))


def _then(earlier: Earlier | None, index: int) -> list[Value]:
    """What was counted in the bin that lies where this one does."""
    if earlier is None:
        return []
    return ["unknown" if earlier.bins.unknown[index] else earlier.bins.total()[index]]


def _counts_caption(names: Sequence[str], total: Sequence[int], bins: Bins, what: str) -> str:
    unknown = unknown_words(bins)
    if not sum(total):
        return f"No {what}{unknown}."
    most, starts = max(range(len(total)), key=total.__getitem__), bins.starts()
    peak = f"most at {clock_text(starts[most], today=starts[-1])} ({total[most]:,} per {bin_text(bins.bin_s)})"
    return f"{count_text(sum(total), what)}, {peak}, mainly {listing(names, most=2)}{unknown}."


def _capacity_caption(bins: CapacityBins) -> str:
    unknown = unknown_words(bins)
    if not bins.series:
        return f"No call to a provider{unknown}."
    limited = sum(map(sum, bins.rate_limited.values()))
    overloaded = sum(map(sum, bins.overloaded.values()))
    if not limited + overloaded:
        return f"No 429 or 529 from {listing(list(bins.series), most=3)}{unknown}."
    worst = next(iter(bins.series))
    return f"{limited:,} × 429 and {overloaded:,} × 529, most from {worst}{unknown}."


def unknown_words(bins: Bins) -> str:
    """`; in 3 of 90 bins nobody lived to report`; empty where somebody always did."""
    missing = sum(bins.unknown) - bins.absent
    if missing <= 0:
        return ""
    return f"; in {missing} of {count_text(bins.length - bins.absent, 'bin')} no instance was reporting"
