"""The measurement of clicks at its smallest, against a real server with real runtimes."""

from __future__ import annotations

import logging

import pytest

from recovery_ops.bench import control
from recovery_ops.bench.yardstick import REFERENCE_PER_S


def test_a_click_reaches_streams_and_runtimes() -> None:
    before = logging.getLogger("recovery_ops.runtime").level
    (report,) = control.measure(control.Size(clients=3, runtimes=2, clicks=1, pollers=3, poll_s=0.2), "sqlite")
    found = {figure.what: -1.0 if figure.value is None else figure.value for figure in report.figures}
    assert found["a restart under 3 streams that come back alone, tried in vain"] >= 0
    share = found["this machine: one core inflates and reads"] / REFERENCE_PER_S
    aims = {figure.what: figure.aim for figure in report.figures}
    assert aims["click received by 3 stream clients, p99"] == pytest.approx(350.0 / share)
    assert aims["from the message of each to its applied being noted, p99"] == pytest.approx(200.0 / share)
    assert found["their attempts in the busiest second"] >= found["of these the server answered, in the busiest second"]
    for what in (
        "click received by 3 stream clients, p99",
        "click obeyed by 2 runtimes beside them, p99",
        "3 come back at once, the last has its document",
        "of these the server answered, in the busiest second",
        "after it answers again half of them have their document",
        "click right after a restart, the last runtime is back and obeys",
        "3 OpAMP agents, each speaking every 0.2 s: message answered, p99",
        "from the message of each to its applied being noted, p99",
        "the same from the click, with the wait until it speaks, p99",
    ):
        assert 0 < found[what] < 20_000, what
    assert logging.getLogger("recovery_ops.runtime").level == before
