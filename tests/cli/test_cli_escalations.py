"""Questions on the operator's command line, against a running console."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.api import VERBS
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.services.settings import save_chain
from recovery_ops.rules.policy.escalation_terms import STAY_CLOSED
from tests.support.actions import asked as acted
from tests.support.channels import EVA, channel
from tests.support.command_line import WHY, Operator, operator
from tests.support.escalation_policies import chain
from tests.support.escalations import asked
from tests.support.stories import NOW, Story
from tests.support.told import untold

__all__ = ["operator"]  # the fixture

ASKED_AT = re.compile(r"^ +(\S+) (ops)\b", re.MULTILINE)
"""When ops was asked, or will be."""


def question(operation: str = "charge_card") -> int:
    late = (NOW - timezone.now()).total_seconds()
    Story().tell(asked(operation=operation), at=late + 400, run="run-1").store()
    open_escalations("dev", timezone.now())
    return Escalation.objects.latest("pk").pk


def test_who_is_asked_when_is_shown(operator: Operator) -> None:
    ops = channel()
    steps = [{"after_s": after_s, "channel": ops.pk} for after_s in (0, 600)]
    save_chain(**acted(by=EVA, now=timezone.now(), name="*", steps=steps))
    number = question()
    tell("dev", timezone.now())
    assert operator.run("escalations", "show", str(number)) == cli.DONE
    planned = ASKED_AT.findall("\n".join(operator.said))
    assert [who for _, who in planned] == ["ops", "ops"], "one was asked, one will be"
    first, second = (datetime.fromisoformat(at) for at, _ in planned)
    assert (second - first).total_seconds() == pytest.approx(600, abs=60)
    assert operator.run("escalations", "acknowledge", str(number), *WHY) == cli.DONE
    assert operator.run("escalations", "show", str(number)) == cli.DONE
    assert ASKED_AT.findall("\n".join(operator.said)) == planned[:1], "no moment where the clock stands"
    assert any(line.split()[0] == "ops" for line in operator.said), "who is not asked is still named"


def test_every_act_is_a_word_for_many_at_once(operator: Operator) -> None:
    get_user_model().objects.create_superuser("bob")
    more = {"assign": ("--to", "bob"), "escalate": ("--to", "payments"), "edit": ("--text", "12 EUR")}
    more |= {"label": ("--labels", "vip"), "step": ("--step", "2")}
    chain((0, channel()), (15, channel(name="lead")))
    for place, verb in enumerate(VERBS):
        numbers = [str(question(operation=f"{verb}-{name}-{place}")) for name in ("one", "two")]
        rest = more.get(verb, ("--into", str(question(operation="into"))) if verb == "merge" else ())
        if verb == "reopen":
            assert operator.run("escalations", "resolve", *numbers, *WHY) == cli.DONE
        assert operator.run("escalations", verb, *numbers, *rest, *WHY) == cli.DONE, operator.said
        reached = ["lead"] if verb == "step" else []
        for line, one in zip(operator.said, numbers, strict=True):
            assert untold(line, f"ESC-{one}", verb, *reached) == []
        name = "approve" if verb == "edit" else verb
        done = AuditEntry.objects.filter(object__in=[f"ESC-{one}" for one in numbers], verb=f"escalation.{name}")
        assert set(done.values_list("channel", "result")) == {("api", AuditEntry.OK)}
        assert done.count() == len(numbers)


def test_a_queue_is_read_and_cleared(operator: Operator) -> None:
    first, second = question(), question(operation="send_mail")
    assert operator.run("escalations", "list") == cli.DONE
    assert untold(operator.said[0], f"ESC-{first}", "normal", "charge_card", "unclassified") == []
    assert untold(operator.said[-1], "dev", "2 open", "2 unacknowledged", "0 mine", "0 snoozed", "0 resolved") == []
    Escalation.objects.filter(pk=second).update(severity="high")
    assert operator.run("escalations", "list", "--severity", "high", "--queue", "unclassified") == cli.DONE
    assert [line.partition(" [")[0] for line in operator.said[:-1]] == [f"ESC-{second}"]
    assert operator.run("escalations", "show", str(first)) == cli.DONE
    asked_first = Escalation.objects.get(pk=first)
    assert (asked_first.default_action, then_of(asked_first) in " ".join(operator.said)) == (STAY_CLOSED, True)
    assert operator.run("escalations", "acknowledge", str(first), str(second), *WHY) == cli.DONE
    for line, one in zip(operator.said, (first, second), strict=True):
        assert untold(line, f"ESC-{one}", "acknowledge", "open", "ana") == []
    assert operator.run("escalations", "resolve", str(first), *WHY, "--dry-run") == cli.DONE
    assert [untold(line, f"ESC-{first}", "resolve", "resolved", "ana") for line in operator.said] == [[]]
    assert Escalation.objects.filter(resolved_at=None).count() == 2
    assert operator.run("escalations", "resolve", str(first), "999", *WHY) == cli.REFUSED
    assert untold(operator.said[-1], "ESC-999", "dev") == []
    assert Escalation.objects.filter(resolved_at=None).count() == 1


def test_what_agents_wrote_does_not_steer_the_terminal(operator: Operator) -> None:
    number = question()
    Escalation.objects.filter(pk=number).update(message="May\x1b]0;owned\x07 it be\x9b2J?\r")
    for word in ("show", "post-mortem"):
        assert operator.run("escalations", word, str(number)) == cli.DONE
        said = "\n".join(operator.said)
        assert "May]0;owned it be2J?" in said.replace("\\", "")
        assert not {*said} & {"\x1b", "\x07", "\r", "\x9b"}


def test_a_post_mortem_is_said_or_kept(operator: Operator, tmp_path: Path) -> None:
    number, file = question(), tmp_path / "post-mortem.md"
    assert operator.run("escalations", "post-mortem", str(number)) == cli.DONE
    said = "\n".join(operator.said)
    head = said.splitlines()[0]
    assert (head.startswith("# "), untold(head, f"ESC-{number}")) == (True, [])
    assert operator.run("escalations", "post-mortem", str(number), "--to", str(file)) == cli.DONE
    assert file.read_text().splitlines()[0] == head
    assert operator.run("escalations", "post-mortem", str(number), "--to", str(file)) == cli.REFUSED
    assert operator.run("escalations", "post-mortem", str(number), "--json") == cli.DONE
    assert json.loads("\n".join(operator.said))["number"] == number
    missing = tmp_path / "none.md"
    assert operator.run("escalations", "post-mortem", "999999", "--to", str(missing)) == cli.REFUSED
    assert not missing.exists()
