"""Golden runs and feedback on the operator's command line, against a running console."""

from __future__ import annotations

from recovery_ops import cli
from recovery_ops.control.models import Feedback, GoldenCase, PolicyProposal
from recovery_ops.rules.feedback import Want
from tests.support.command_line import WHY, Operator, operator
from tests.support.golden import MUST, run

__all__ = ["operator", "run"]  # the fixtures


def test_a_run_is_kept_shown_and_let_go(operator: Operator, run: str) -> None:
    assert operator.run("golden", "list") == cli.DONE
    assert operator.said == ["No run is golden yet: `golden mark RUN` keeps one."]
    mark = ("golden", "mark", run, "--name", "third time lucky", "--must", MUST, *WHY)
    assert operator.run(*mark, "--dry-run") == cli.DONE
    assert operator.said[0].startswith("Nothing was changed. It would be: golden run 1 ")
    assert not GoldenCase.objects.exists()
    assert operator.run(*mark) == cli.DONE
    line = f"golden run 1 “third time lucky” must be {MUST} (run {run}, by ana)"
    assert operator.said == [line]
    assert operator.run(*mark) == cli.DONE
    assert operator.said == [f"It was so already: {line}"]
    assert operator.run("golden", "show", "1") == cli.DONE
    assert operator.said == [line, "  search_web: answered, 3 attempts"]
    assert operator.run("golden", "drop", "1") == cli.DONE
    assert operator.run("golden", "list") == cli.DONE
    assert operator.said == ["No run is golden yet: `golden mark RUN` keeps one."]
    assert operator.run("golden", "show", "7") == cli.REFUSED


def test_what_was_handled_badly_becomes_a_proposal_or_is_laid_aside(operator: Operator) -> None:
    assert operator.run("feedback", "list") == cli.DONE
    assert operator.said == ["Nobody has said that something was handled badly."]
    for want in (Want.RETRY_LESS, Want.OTHER):
        assert operator.run("feedback", "say", "search_web", "--want", want, "--service", "research", *WHY) == cli.DONE
    assert operator.said == ["feedback 2: search_web, something else; open (by ana)"]
    assert operator.run("feedback", "propose", "1", *WHY) == cli.DONE
    assert operator.said == ["proposal 1: draft, search_web: retried less often (feedback 1)"]
    assert PolicyProposal.objects.get().number == 1
    assert operator.run("feedback", "propose", "1", *WHY) == cli.REFUSED
    assert operator.run("feedback", "close", "2", *WHY) == cli.DONE
    assert operator.run("feedback", "list") == cli.DONE
    assert operator.said == [
        "feedback 2: search_web, something else; closed (by ana)",
        "feedback 1: search_web, retried less often; proposed as proposal 1 (by ana)",
    ]
    assert Feedback.objects.filter(state=Feedback.OPEN).count() == 0
