"""Outages on the operator's command line: a line on one's page, and a queue that is asked about it."""

from __future__ import annotations

import pytest

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from recovery_ops import cli
from recovery_ops.control.models import CapacityNote, Escalation
from tests.support.capacity import storm
from tests.support.command_line import WHY, Operator, operator
from tests.support.stories import NOW, Story

__all__ = ["operator"]  # the fixture


@pytest.fixture
def number(operator: Operator) -> str:
    storm(Story(), since=400, until=300).store()
    look("dev", NOW)
    return str(CapacityEvent.objects.get().pk)


def test_a_note_stands_on_the_outage_and_a_dry_run_leaves_none(operator: Operator, number: str) -> None:
    assert operator.run("capacity", "note", number, *WHY, "--dry-run") == cli.DONE
    assert operator.said == [f"Nothing was changed. It would be: note CE-{number}"]
    assert not CapacityNote.objects.exists()
    assert operator.run("capacity", "note", number, *WHY) == cli.DONE
    assert operator.said == [f"note CE-{number}"]
    assert operator.run("capacity", "show", number) == cli.DONE
    [note] = [one for one in operator.said if one.endswith(f"ana: {WHY[1]}")]
    assert note.startswith("  20")
    assert operator.run("capacity", "note", "999", *WHY) == cli.REFUSED


def test_a_queue_is_asked_once_about_an_outage(operator: Operator, number: str) -> None:
    asks = ("capacity", "escalate", number, "--queue", "vendors", "--question", "Is it in their contract?", *WHY)
    assert operator.run(*asks, "--dry-run") == cli.DONE
    assert operator.said == [f"Nothing was changed. It would be: escalate CE-{number}"]
    assert not Escalation.objects.exists()
    assert operator.run(*asks, "--severity", "high") == cli.DONE
    one = Escalation.objects.get()
    assert (one.queue, one.severity, one.message) == ("vendors", "high", "Is it in their contract?")
    assert operator.said == [f"escalate CE-{number}: ESC-{one.pk}"]
    assert operator.run(*asks) == cli.DONE
    assert operator.said == [f"It was so already: escalate CE-{number}: ESC-{one.pk}"]
    assert operator.run("capacity", "show", number) == cli.DONE
    assert f"  asked about in ESC-{one.pk}" in operator.said
    assert operator.run(*asks, "--severity", "moon") == cli.REFUSED
