"""The measurement of pages at its smallest: everything is measured, and what does not hang on the machine is kept."""

from __future__ import annotations

from recovery_ops.bench.figures import Report


def over(report: Report) -> list[str]:
    """What is more than was aimed at, or was not measured."""
    return [
        f"{report.name}, {one.what}: {one.value or one.note}"
        for one in report.figures
        if one.value is None or (one.aim is not None and one.value > one.aim)
    ]
