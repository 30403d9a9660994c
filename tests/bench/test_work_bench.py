"""The measurement of background work: real processes, every message once, and a second worker that is there."""

from __future__ import annotations

import pytest

from recovery_ops.bench import work


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_messages_go_out_once_and_what_a_second_worker_does_is_beside_the_first(
    engine: str, postgres_server: str, redis_server: str
) -> None:
    [report] = work.measure(engine, messages=4, rounds=1)
    figures = {figure.what: figure for figure in report.figures}
    assert figures.pop("messages that came twice").value == 0
    assert all(figure.value is not None and figure.value > 0 for figure in figures.values())
    ratios = [what for what, figure in figures.items() if figure.ratio is not None]
    assert [what.startswith("two workers, ") for what in ratios] == [True] * (2 if engine == "postgresql" else 0)


def test_a_receiver_knows_what_came_twice() -> None:
    told = work.Receiver()
    for number in (1, 2, 1):
        told.take(f'{{"id": {number}}}'.encode())
    assert (sorted(told.arrived), told.twice) == (["1", "2"], 1)
