"""Steps for people on the operator's command line, against a running console."""

from __future__ import annotations

from pathlib import Path

from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.runbooks.markdown import key_of
from recovery_ops.control.runbooks.models import Runbook
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from tests.support.command_line import WHY, Operator, operator
from tests.support.stories import NOW, Story

__all__ = ["operator"]  # the fixture


def test_steps_are_written_read_and_ticked(operator: Operator, tmp_path: Path) -> None:
    now = timezone.now()
    asked = Escalated(operation="charge_card", category=Category.TIMEOUT, queue="payments", reason="persistent")
    Story().tell(asked, at=(NOW - now).total_seconds() + 10).store()
    open_escalations("dev", now)
    number = str(Escalation.objects.get().pk)
    assert operator.run("runbooks", "list") == cli.DONE
    assert (len(operator.said), "timeout" in operator.said[0]) == (1, False)
    assert operator.run("runbooks", "steps", number) == cli.DONE
    assert (len(operator.said), "[" in operator.said[0]) == (1, False)
    steps = tmp_path / "timeout.md"
    steps.write_text("# First\n- look\n- ask\n")
    save = ("runbooks", "save", "timeout", "--file", str(steps), "--owner", "payments", *WHY)
    assert operator.run(*save, "--dry-run") == cli.DONE
    assert not Runbook.objects.exists()
    assert operator.run(*save, "--review-on", "2099-12-31") == cli.DONE
    line = "timeout: 2 steps, owner payments, review by 2099-12-31, never used"
    assert operator.said == [line]
    assert operator.run("runbooks", "list") == cli.DONE
    assert operator.said == [line]
    assert operator.run("runbooks", "show", "timeout") == cli.DONE
    assert operator.said == ["# First\n- look\n- ask"]
    assert operator.run("runbooks", "tick", number, "ask") == cli.DONE
    assert operator.said[0] == f"[ ] {key_of('look')} look"
    assert operator.said[1].startswith(f"[x] {key_of('ask')} ask (ana, ")
    assert operator.run("runbooks", "untick", number, key_of("ask")) == cli.DONE
    assert operator.said[1] == f"[ ] {key_of('ask')} ask"
    assert operator.run("runbooks", "tick", number, "moon") == cli.REFUSED
    assert operator.run("runbooks", "remove", "timeout", *WHY) == cli.DONE
    assert operator.run("runbooks", "show", "timeout") == cli.DONE
    assert Runbook.objects.get().text == ""
    assert (len(operator.said), "look" in operator.said[0]) == (1, False)
    assert operator.run("runbooks", "show", "moon") == cli.REFUSED
