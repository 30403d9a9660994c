"""The measurement of clicks at its smallest, against a real server with real runtimes."""

from __future__ import annotations

import logging

from recovery_ops.bench import control


def test_a_click_reaches_streams_and_runtimes() -> None:
    before = logging.getLogger("recovery_ops.runtime").level
    (report,) = control.measure(control.Size(clients=3, runtimes=2, clicks=1), "sqlite")
    found = {figure.what: figure.value for figure in report.figures}
    for what in (
        "click received by 3 stream clients, p99",
        "click obeyed by 2 runtimes, p99",
        "3 come back at once, the last has its document",
        "the same after a restart of the server",
        "click right after a restart, the last runtime is back and obeys",
    ):
        value = found[what]
        assert value is not None
        assert 0 < value < 20_000, what
    assert logging.getLogger("recovery_ops.runtime").level == before
