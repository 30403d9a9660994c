"""The command line about the report: MTTA, MTTR and load of escalations, and what agents recovered."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from recovery_ops.cli.words import DONE, Asking, Say

_RANGES = (
    ("weeks", "N", "the last weeks, the current one included (4)"),
    ("week", "DAY", "instead, the week of this day: 2026-01-31"),
    ("month", "MONTH", "instead, one calendar month: 2026-01"),
)


def add_words(verbs: Any) -> None:
    """The verb `report`."""
    one = verbs.add_parser("report", help="MTTA, MTTR, SLA, auto-recovered runs, time saved and cost of a range")
    only = one.add_mutually_exclusive_group()
    for name, shape, brief in _RANGES:
        only.add_argument(f"--{name}", metavar=shape, help=brief)


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Say the figures of a range, and of each week of it."""
    asked = urlencode({name: given for name, *_ in _RANGES if (given := getattr(options, name))})
    found = console.ask("GET", f"/api/v1/report?{asked}")
    total = found["total"]
    say(f"{found['environment']}, {total['start'][:10]} to {total['end'][:19]} UTC")
    for line in _figures(total):
        say(line)
    for line in _outcomes(found["recovery"]):
        say(line)
    if found["is_partial"]:
        say("Partial: the oldest escalations are not included.")
    for week in found["weeks"] if len(found["weeks"]) > 1 else ():
        say(f"from {week['start'][:10]}: {'; '.join(_figures(week))}")
    return DONE


def _figures(span: Mapping[str, Any]) -> Iterator[str]:
    yield f"escalations: {span['asked']}, {span['by_default']} by default action"
    for word, name in (("MTTA", "acknowledging"), ("MTTR", "resolving")):
        times = span[name]
        if times["count"]:
            yield f"{word}: p50 {_span(times['median_s'])}, p90 {_span(times['p90_s'])}, of {times['count']}"
    for word, name in (("ack SLA met", "acknowledged_in_time"), ("resolve SLA met", "resolved_in_time")):
        if span[name]["of"]:
            yield f"{word}: {span[name]['kept']} of {span[name]['of']} due"


def _outcomes(recovery: Mapping[str, Any]) -> Iterator[str]:
    runs, spent, money = recovery["runs"], recovery["time"], recovery["money"]
    if runs["ended"] is None:
        yield "runs with failures: not available yet"
        return
    yield (
        f"runs with failures: {runs['troubled']} of {runs['ended']}; {runs['alone']} auto-recovered, "
        f"{runs['helped']} with human input, {runs['lost']} failed"
    )
    yield f"time saved: {_span(spent['saved_s'])}; in failed runs: {_span(spent['lost_s'])}"
    cost = "not reported" if money["saved_usd"] is None else f"${money['saved_usd']:.2f} saved"
    lost = "" if money["lost_usd"] is None else f", ${money['lost_usd']:.2f} in failed runs"
    yield f"cost: {cost}{lost}"


def _span(seconds: float) -> str:
    """`42 s`, `12 min`, `3.4 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
