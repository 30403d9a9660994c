"""Unknown failures on the operator's command line, against a running console."""

from __future__ import annotations

import re

from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.models.unclassified import UnknownCause
from tests.support.command_line import WHY, Operator, operator
from tests.support.stories import NOW
from tests.support.unclassified import MARK, met

__all__ = ["operator"]  # the fixture


def test_a_cause_is_listed_named_dismissed_and_reopened(operator: Operator) -> None:
    assert operator.run("unclassified", "list") == cli.DONE
    assert (len(operator.said), MARK in operator.said[0]) == (1, False)
    met(late=(NOW - timezone.now()).total_seconds())
    assert operator.run("unclassified", "list") == cli.DONE
    [line] = operator.said
    assert line.startswith(f"{MARK} waiting: 3 x ledger 0 is busy")
    assert ("post_entry" in line, "overloaded" in line) == (True, True)
    named = ("unclassified", "propose", MARK, "--category", "server_error", "--operation", "", *WHY)
    assert operator.run(*named, "--dry-run") == cli.DONE
    assert not PolicyProposal.objects.exists()
    assert operator.run(*named) == cli.DONE
    matched, proposed = operator.said
    assert re.findall(r"\d+", matched) == ["3", "3", "7", "3", "0"]
    made = PolicyProposal.objects.get()
    assert proposed == f"proposal 1: {made.state}, {made.title}"
    assert [word in made.title for word in ("LedgerError", "post_entry", "server_error")] == [True] * 3
    [rule] = made.document["classification"]
    assert rule["match"] == {"exception_type": "acme.LedgerError", "message": "ledger * is busy"}
    assert operator.run("unclassified", "dismiss", MARK, *WHY) == cli.DONE
    assert operator.said == [f"{MARK}: dismissed"]
    assert operator.run("unclassified", "reopen", MARK, *WHY) == cli.DONE
    assert UnknownCause.objects.get().state == "open"
    assert operator.run("unclassified", "propose", "nobody", "--category", "timeout", *WHY) == cli.REFUSED
