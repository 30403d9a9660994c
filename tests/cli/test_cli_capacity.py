"""Outages on the operator's command line: a line on one's page, and a queue that is asked about it."""

from __future__ import annotations

import pytest

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from recovery_ops import cli
from recovery_ops.control.capacity.models import CapacityNote
from recovery_ops.control.escalations.models import Escalation
from tests.support.capacity import storm
from tests.support.command_line import WHY, Operator, operator
from tests.support.stories import NOW, Story
from tests.support.told import untold

__all__ = ["operator"]  # the fixture

QUESTION = "Is it in their contract?"


@pytest.fixture
def number(operator: Operator) -> str:
    storm(Story(), since=400, until=300).store()
    look("dev", NOW)
    return str(CapacityEvent.objects.get().pk)


def test_a_note_stands_on_the_outage_and_a_dry_run_leaves_none(operator: Operator, number: str) -> None:
    assert operator.run("capacity", "note", number, *WHY, "--dry-run") == cli.DONE
    [tried] = operator.said
    assert untold(tried, f"CE-{number}") == []
    assert not CapacityNote.objects.exists()
    assert operator.run("capacity", "note", number, *WHY) == cli.DONE
    [said] = operator.said
    assert (untold(said, f"CE-{number}"), said != tried) == ([], True)
    assert CapacityNote.objects.get().text == WHY[1]
    assert operator.run("capacity", "show", number) == cli.DONE
    [note] = [one for one in operator.said if one.endswith(f"ana: {WHY[1]}")]
    assert note.startswith("  20")
    assert operator.run("capacity", "note", "999", *WHY) == cli.REFUSED


def test_a_queue_is_asked_once_about_an_outage(operator: Operator, number: str) -> None:
    asks = ("capacity", "escalate", number, "--queue", "vendors", "--question", QUESTION, *WHY)
    assert operator.run(*asks, "--dry-run") == cli.DONE
    [tried] = operator.said
    assert (untold(tried, f"CE-{number}"), "ESC-" in tried) == ([], False)
    assert not Escalation.objects.exists()
    assert operator.run(*asks, "--severity", "high") == cli.DONE
    one = Escalation.objects.get()
    assert (one.queue, one.severity, one.message) == ("vendors", "high", QUESTION)
    [said] = operator.said
    assert untold(said, f"CE-{number}", f"ESC-{one.pk}") == []
    assert operator.run(*asks) == cli.DONE
    [again] = operator.said
    assert (untold(again, f"CE-{number}", f"ESC-{one.pk}"), again != said) == ([], True), "it was so already"
    assert Escalation.objects.get() == one
    assert operator.run("capacity", "show", number) == cli.DONE
    assert any(untold(line, f"ESC-{one.pk}") == [] for line in operator.said)
    assert operator.run(*asks, "--severity", "moon") == cli.REFUSED
