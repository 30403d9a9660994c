"""Both sides are killed while a run waits for a person. The answer comes afterwards, is heard, and is obeyed once."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.agents import SqliteStore, manage_each
from tests.support.desk import Desk
from tests.support.processes import Running, Server, eventually

DECIDED = {"order-1": ("approve", {}), "order-2": ("reject", {}), "order-3": ("edit", {"text": "80 EUR"})}
HEARD = {"order-1": "approved 120 EUR", "order-2": "rejected 120 EUR", "order-3": "approved 80 EUR"}


def killed(process: Running) -> None:
    """SIGKILL to it and to whatever it started."""
    os.killpg(process.process.pid, signal.SIGKILL)
    process.process.wait()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return Desk(str(probe.getsockname()[1]), tmp_path)


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """What is started in a test, and killed at its end."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(("form", "survivor"), [("wait", "order-3"), ("ticket", "order-1")])
def test_an_answer_that_was_given_after_both_sides_were_killed_is_obeyed_once(
    form: str, survivor: str, desk: Desk, start_server: Callable[..., Server], tmp_path: Path, ends: ExitStack
) -> None:
    data = tmp_path / "data"
    server = start_server("--port", desk.port)
    desk.key, desk.desk_key = manage_each(
        data, "key create --name flow --scope ingest,desired", "key create --name desk --scope read,act"
    )
    waiting = {order: ends.enter_context(desk.agent(form, order)) for order in DECIDED}
    eventually(lambda: set(desk.questions()) == set(DECIDED), what="three questions")
    if form == "ticket":
        for one in waiting.values():
            one.said("asked")
    killed(server)
    # Two are killed with it, one waits on and finds the console again.
    living = waiting.pop(survivor)
    for one in waiting.values():
        killed(one)

    server = start_server("--port", desk.port)
    for order, number in desk.questions().items():
        verb, words = DECIDED[order]
        desk.ask(f"escalations/{number}/{verb}", {"reason": f"Decided about {order}.", **words})
    assert living.said(r"told: (.*)")[1] == f"{HEARD[survivor]} by desk"
    assert living.wait() == 0
    # What was decided is as durable as what was asked.
    killed(server)
    server = start_server("--port", desk.port)
    for order in DECIDED:
        # The second start finds everything done.
        for _ in range(2):
            with desk.agent(form, order) as again:
                assert again.said(r"told: (.*)")[1] == f"{HEARD[order]} by desk"
                assert again.wait() == 0
    assert desk.lines() == [f"{order}: {said} by desk" for order, said in HEARD.items()]
    each_was_asked_and_decided_once(SqliteStore(data), desk)


def each_was_asked_and_decided_once(store: SqliteStore, desk: Desk) -> None:
    assert store.count("SELECT count(*) FROM control_escalation") == len(DECIDED)
    closed = desk.ask("escalations?tab=resolved")["escalations"]
    ends = {one["message"].split()[2]: one["resolution"] for one in closed}
    assert ends == {"order-1": "approved", "order-2": "rejected", "order-3": "edited"}
    stories = [desk.ask(f"escalations/{one['number']}")["story"] for one in closed]
    verbs = Counter(note["verb"] for story in stories for note in story)
    assert (verbs["opened"], verbs["approve"], verbs["reject"]) == (3, 2, 1)
    audited = "SELECT count(*) FROM control_auditentry WHERE verb IN ('escalation.approve', 'escalation.reject')"
    assert store.count(audited) == len(DECIDED)
