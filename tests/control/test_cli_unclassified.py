"""Unknown failures on the operator's command line, against a running console."""

from __future__ import annotations

from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.models import PolicyProposal, UnknownCause
from tests.support.command_line import WHY, Operator, operator
from tests.support.stories import NOW
from tests.support.unclassified import MARK, met

__all__ = ["operator"]  # the fixture


def test_a_cause_is_listed_named_dismissed_and_reopened(operator: Operator) -> None:
    assert operator.run("unclassified", "list") == cli.DONE
    assert operator.said == ["No failure of the last 7 days is unknown."]
    met(late=(NOW - timezone.now()).total_seconds())
    assert operator.run("unclassified", "list") == cli.DONE
    [line] = operator.said
    assert line.startswith(f"{MARK} waiting: 3 x ledger 0 is busy (in post_entry); may be overloaded: its message says")
    named = ("unclassified", "propose", MARK, "--category", "server_error", "--operation", "", *WHY)
    assert operator.run(*named, "--dry-run") == cli.DONE
    assert not PolicyProposal.objects.exists()
    assert operator.run(*named) == cli.DONE
    told = "it would match 3 of the newest 3 failures of 7 days: 3 unknown, 0 classified otherwise, which stay so"
    title = "LedgerError in post_entry: unknown failures are server_error"
    assert operator.said == [told, f"proposal 1: draft, {title}"]
    [rule] = PolicyProposal.objects.get().document["classification"]
    assert rule["match"] == {"exception_type": "acme.LedgerError", "message": "ledger * is busy"}
    assert operator.run("unclassified", "dismiss", MARK, *WHY) == cli.DONE
    assert operator.said == [f"{MARK}: dismissed"]
    assert operator.run("unclassified", "reopen", MARK, *WHY) == cli.DONE
    assert UnknownCause.objects.get().state == "open"
    assert operator.run("unclassified", "propose", "nobody", "--category", "timeout", *WHY) == cli.REFUSED
