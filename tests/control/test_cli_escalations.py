"""Questions on the operator's command line, against a running console."""

from __future__ import annotations

from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.escalations.opening import open_escalations
from recovery_ops.control.models import Escalation
from tests.control.test_cli import WHY, Operator, operator
from tests.control.test_escalations import asked
from tests.events.seeding import NOW, Story

__all__ = ["operator"]  # the fixture


def question(operation: str = "charge_card") -> int:
    late = (NOW - timezone.now()).total_seconds()
    Story().tell(asked(operation=operation), at=late + 400, run="run-1").store()
    open_escalations("dev", timezone.now())
    return Escalation.objects.latest("pk").pk


def test_a_queue_is_read_and_cleared(operator: Operator) -> None:
    first, second = question(), question(operation="send_mail")
    assert operator.run("escalations", "list") == cli.DONE
    assert operator.said[0].startswith(f"ESC-{first} [normal] charge_card: unknown (unclassified): due ")
    assert operator.said[-1] == "dev: 2 open, 2 unacknowledged, 0 mine, 0 snoozed, 0 resolved"
    assert operator.run("escalations", "show", str(first)) == cli.DONE
    assert "it goes on failing closed." in " ".join(operator.said)
    assert operator.run("escalations", "acknowledge", str(first), str(second), *WHY) == cli.DONE
    assert operator.said == [f"ESC-{one}: acknowledge; open, owner ana" for one in (first, second)]
    assert operator.run("escalations", "resolve", str(first), *WHY, "--dry-run") == cli.DONE
    assert operator.said == [f"ESC-{first}: resolve (nothing was changed); resolved, owner ana"]
    assert operator.run("escalations", "resolve", str(first), "999", *WHY) == cli.REFUSED
    assert "ESC-999: refused. There is no escalation ESC-999 in dev." in operator.said
    assert Escalation.objects.filter(resolved_at=None).count() == 1
