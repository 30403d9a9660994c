"""Golden runs and feedback on the operator's command line, against a running console."""

from __future__ import annotations

from recovery_ops import cli
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.replay.models.golden import GoldenCase
from recovery_ops.rules.policy.feedback import WORDS, Want
from tests.support.command_line import WHY, Operator, operator
from tests.support.golden import MUST, run
from tests.support.told import untold

__all__ = ["operator", "run"]  # the fixtures


def test_a_run_is_kept_shown_and_let_go(operator: Operator, run: str) -> None:
    assert operator.run("golden", "list") == cli.DONE
    [none] = operator.said
    mark = ("golden", "mark", run, "--name", "third time lucky", "--must", MUST, *WHY)
    assert operator.run(*mark, "--dry-run") == cli.DONE
    [tried] = operator.said
    assert untold(tried, 1, "third time lucky") == []
    assert not GoldenCase.objects.exists()
    assert operator.run(*mark) == cli.DONE
    [line] = operator.said
    assert untold(line, 1, "third time lucky", MUST, run, "ana") == []
    assert operator.run(*mark) == cli.DONE
    [again] = operator.said
    assert line in again
    assert len({tried, line, again}) == 3, "whether it was tried, done, or so already is told"
    assert GoldenCase.objects.count() == 1
    assert operator.run("golden", "show", "1") == cli.DONE
    shown, call = operator.said
    assert (shown, untold(call, "search_web", "answered", 3)) == (line, [])
    assert operator.run("golden", "drop", "1") == cli.DONE
    assert operator.run("golden", "list") == cli.DONE
    assert operator.said == [none]
    assert operator.run("golden", "show", "7") == cli.REFUSED


def test_what_was_handled_badly_becomes_a_proposal_or_is_laid_aside(operator: Operator) -> None:
    assert operator.run("feedback", "list") == cli.DONE
    [none] = operator.said
    for want in (Want.RETRY_LESS, Want.OTHER):
        assert operator.run("feedback", "say", "search_web", "--want", want, "--service", "research", *WHY) == cli.DONE
    assert [untold(one, 2, "search_web", WORDS[Want.OTHER], "open", "ana") for one in operator.said] == [[]]
    assert operator.run("feedback", "propose", "1", *WHY) == cli.DONE
    proposal = PolicyProposal.objects.get()
    assert [untold(one, proposal.number, proposal.state, proposal.title) for one in operator.said] == [[]]
    assert Feedback.objects.get(number=1).proposal == proposal
    assert operator.run("feedback", "propose", "1", *WHY) == cli.REFUSED
    assert operator.run("feedback", "close", "2", *WHY) == cli.DONE
    assert operator.run("feedback", "list") == cli.DONE
    assert none not in operator.said
    second, first = operator.said
    assert untold(second, 2, "search_web", WORDS[Want.OTHER], "closed", "ana") == []
    assert untold(first, 1, "search_web", WORDS[Want.RETRY_LESS], "proposed", "ana") == []
    assert Feedback.objects.filter(state=Feedback.OPEN).count() == 0
