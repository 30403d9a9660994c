"""A drawing of what goes from where to where, as safe SVG: ribbons between two columns of bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

_SANKEY_PX, _USUAL_NODE_PX, _LEAST_NODE_PX, _NODE_GAP_PX = 180, 60, 30, 8
_MOST_TOLD = 8


def sankey(flows: Sequence[tuple[str, str, int]], *, marks_changes: bool = False) -> SafeString:
    """What goes from where to where, as ribbons between two columns of bars, each side with its words and numbers.

    With `marks_changes`, what changes its name is drawn darker than what keeps it. A table says the same.
    """
    left = _column((begin, number) for begin, _, number in flows)
    right = _column((end, number) for _, end, number in flows)
    height = f"{max(top + length for top, length, _ in (*left.values(), *right.values())):.0f}"
    used: dict[tuple[int, str], float] = {}
    ribbons = []
    for begin, end, number in flows:
        ends = []
        for side, (column, name) in enumerate(((left, begin), (right, end))):
            top, length, total = column[name]
            thick = length * number / total
            at = used.get((side, name), top)
            used[side, name] = at + thick
            ends += [at, at + thick]
        ribbons.append(
            ("flow moved" if marks_changes and begin != end else "flow", _ribbon(*ends), f"{begin} → {end}: {number:,}")
        )
    told = ", ".join(f"{begin} to {end} {number:,}" for begin, end, number in flows[:_MOST_TOLD])
    return format_html(
        '<svg class="sankey" height="{}" role="img" aria-label="{}">{}{}'
        '<svg x="35%" width="30%" height="{}" viewBox="0 0 100 {}" preserveAspectRatio="none">{}</svg></svg>',
        height,
        f"From left to right: {told}",
        _names(left, bar="34%", text="33%", anchor="end"),
        _names(right, bar="65%", text="67%", anchor="start"),
        height,
        height,
        format_html_join("", '<path class="{}" d="{}"><title>{}</title></path>', ribbons),
    )


def _column(parts: Iterable[tuple[str, int]]) -> dict[str, tuple[float, float, int]]:
    """Where the bar of each name begins, how long it is, and its number; the greatest first."""
    sums: dict[str, int] = {}
    for name, number in parts:
        sums[name] = sums.get(name, 0) + number
    total, top = sum(sums.values()) or 1, 0.0
    found = {}
    for name, number in sorted(sums.items(), key=lambda item: (-item[1], item[0])):
        length = max(_LEAST_NODE_PX, min(_SANKEY_PX, _USUAL_NODE_PX * len(sums)) * number / total)
        found[name] = (top, length, number)
        top += length + _NODE_GAP_PX
    return found


def _names(column: dict[str, tuple[float, float, int]], *, bar: str, text: str, anchor: str) -> SafeString:
    rows = []
    for name, (top, length, number) in column.items():
        middle = top + length / 2
        word, below = (f"{middle - 2:.1f}", anchor, name), (f"{middle + 12:.1f}", anchor, f"{number:,}")
        rows.append((bar, f"{top:.1f}", f"{length:.1f}", text, *word, text, *below))
    return format_html_join(
        "",
        '<rect class="wait" x="{}" width="1%" y="{}" height="{}"/>'
        '<text class="strong" x="{}" y="{}" text-anchor="{}">{}</text><text x="{}" y="{}" text-anchor="{}">{}</text>',
        rows,
    )


def _ribbon(left: float, left_end: float, right: float, right_end: float) -> str:
    over = f"M0 {left:.1f} C50 {left:.1f} 50 {right:.1f} 100 {right:.1f}"
    return f"{over} L100 {right_end:.1f} C50 {right_end:.1f} 50 {left_end:.1f} 0 {left_end:.1f} Z"
