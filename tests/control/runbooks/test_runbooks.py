"""What people do about a class of failures: written by editors, drawn as text alone, ticked for a question, audited."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from events.keys import create_key
from events.pages.empties import Why
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.runbooks.markdown import blocks_of, fault_of_text, key_of
from recovery_ops.control.runbooks.models import Runbook, RunbookTick
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

ASK = "Ask **the provider**"
STEPS = "# First\n- Look at `status.example.org`\n- Ask **the provider**\nThen wait.\n1. Say so to customers"


def question(category: Category = Category.TIMEOUT, operation: str = "charge_card") -> Escalation:
    """Somebody is asked about a failure of this class."""
    asked = Escalated(operation=operation, category=category, queue="payments", reason="persistent")
    Story().tell(asked, at=10).store()
    open_escalations("dev", NOW)
    return Escalation.objects.latest("pk")


def write(text: str = STEPS, category: str = "timeout", role: Role = Role.EDITOR, **form: Any) -> Any:
    """The answer to the form of the steps."""
    given = {"markdown": text, "owner": "payments", "review_on": "2026-12-31", "reason": REASON, "version": "0"} | form
    return signed_in(role, str(role)).post(f"/policies/playbook/{category}/edit", given)


def tick(number: int, words: str, act: str = "done", role: Role = Role.RESPONDER) -> Any:
    return signed_in(role, str(role)).post(f"/escalations/{number}/steps", {act: key_of(words)})


def done_of(one: Escalation) -> list[bool]:
    """Of each step on the page of a question, whether it is done."""
    page = signed_in().get(f"/escalations/{one.pk}")
    done = [line.tick is not None for line in page.context["steps"] if line.is_step]
    shown = [box.attributes["aria-checked"] for box in Shown(page).root.all() if "aria-checked" in box.attributes]
    assert shown == [str(one).lower() for one in done]
    return done


# -- drawn -------------------------------------------------------------------------------------------------------------
def test_lines_are_steps_headings_and_text() -> None:
    told = [(one.kind, one.words) for one in blocks_of("## Now\n- [ ] one\n* [x] two\n 3) three\n-not a step\n\n")]
    assert told == [("heading", "Now"), ("step", "one"), ("step", "two"), ("step", "three"), ("text", "-not a step")]


@pytest.mark.parametrize(
    ("words", "drawn"),
    [
        ("see `a<b`", "see <code>a&lt;b</code>"),
        ("**now** & then", "<strong>now</strong> &amp; then"),
        ("[page](https://x.org/a?b=1)", '<a href="https://x.org/a?b=1" rel="noreferrer">page</a>'),
        ("[here](/breakers/search_web)", '<a href="/breakers/search_web" rel="noreferrer">here</a>'),
        ("[no](javascript:alert(1))", "[no](javascript:alert(1))"),
        ("[no](//evil.example)", "[no](//evil.example)"),
        ('[no](https://x"onclick=y)', "[no](https://x&quot;onclick=y)"),
        (HOSTILE, "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"),
        ("**<b>`</b>**`", "<strong>&lt;b&gt;`&lt;/b&gt;</strong>`"),
    ],
)
def test_nothing_but_code_strong_words_and_links_comes_through(words: str, drawn: str) -> None:
    [one] = blocks_of(f"- {words}")
    assert one.html == drawn


def test_a_step_keeps_its_key_while_its_words_stay() -> None:
    before, after = blocks_of("- one\n- two\n- one"), blocks_of("- new\n- one\n- two, really\n- one")
    assert len({one.key for one in before}) == 3
    assert {one.key for one in before} & {one.key for one in after} == {before[0].key, before[2].key}


@pytest.mark.parametrize(
    ("text", "told"),
    [("Only words.", "-"), ("- one\0", ""), ("- x\n" * 51, "50"), (f"- {'x' * 401}", "400")],
)
def test_what_is_wrong_with_a_text_is_said(text: str, told: str) -> None:
    assert fault_of_text("") == fault_of_text("- one") == ""
    fault = fault_of_text(text)
    assert (fault != "", told in fault) == (True, True)


# -- written -----------------------------------------------------------------------------------------------------------
def test_an_editor_writes_them_and_the_playbook_says_whose_they_are_and_when_they_were_used() -> None:
    assert Shown(signed_in(Role.VIEWER).get("/policies/playbook/timeout")).values("why") == [Why.NEVER]
    assert write().status_code == 303
    page = signed_in(Role.VIEWER).get("/policies/playbook/timeout")
    blocks = page.context["blocks"]
    assert [one.kind for one in blocks] == ["heading", "step", "step", "text", "step"]
    assert [one.html in page.content.decode() for one in blocks] == [True] * 5
    one = page.context["one"]
    assert (one.owner, f"{one.review_on}", one.used_at, one.changed_by) == ("payments", "2026-12-31", None, "editor")
    assert left_out(text_of(page), "payments", "2026-12-31", "editor") == []
    assert "/edit" not in page.content.decode()
    playbook = Shown(signed_in().get("/policies?tab=playbook&range=15m"))
    assert left_out(playbook.one("key", "runbook-timeout").text, "timeout", "3", "payments", "2026-12-31") == []
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.object, entry.actor_name) == ("runbook.save", "the runbook timeout", "editor")
    assert entry.after["text"] == STEPS
    assert write(version="1", review_on="2026-11-20").status_code == 303
    assert Shown(signed_in().get("/policies/playbook/timeout")).values("standing") == ["late"]
    assert write("", version="2").status_code == 303
    assert AuditEntry.objects.latest("number").verb == "runbook.remove"
    assert Shown(signed_in(Role.VIEWER).get("/policies/playbook/timeout")).values("why") == [Why.NEVER]


def test_nobody_below_an_editor_writes_them_and_nobody_over_somebody_elses() -> None:
    assert write(role=Role.OPERATOR).status_code == 403
    assert signed_in().get("/policies/playbook/timeout/edit").status_code == 403
    assert write().status_code == 303
    late = write("- something else")
    assert late.status_code == 409
    assert "editor" in late.context["problem"]
    wrong = write("Only words.", version="1")
    assert wrong.status_code == 400
    assert list(wrong.context["form"].errors) == ["markdown"]
    assert Runbook.objects.get().text == STEPS
    assert signed_in().get("/policies/playbook/gremlins").status_code == 404


def test_what_they_say_is_text_on_every_page() -> None:
    one = question()
    assert write(f"- {HOSTILE}", owner=HOSTILE).status_code == 303
    for path in ("/policies/playbook/timeout", f"/escalations/{one.pk}", "/policies?tab=playbook&range=15m"):
        assert HOSTILE not in signed_in().get(path).content.decode()


# -- ticked ------------------------------------------------------------------------------------------------------------
def test_steps_stand_beside_the_question_and_ticks_are_audited() -> None:
    one, other = question(), question(operation="refund")
    assert done_of(one) == []
    write()
    assert done_of(one) == [False, False, False]
    assert tick(one.pk, ASK).headers["Location"] == f"/escalations/{one.pk}#steps"
    page = signed_in().get(f"/escalations/{one.pk}")
    assert done_of(one) == [False, True, False]
    assert left_out(page.context["ticked"], "1", "3") == []
    assert left_out(Shown(page).within("id", f"step-{key_of(ASK)}").root.text, "responder", "14:26:18") == []
    assert re.findall(r'aria-checked="(\w+)"', page.content.decode()) == ["false", "true", "false"]
    assert done_of(other) == [False, False, False]
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.object, entry.after["step"]) == ("runbook.tick", str(one), ASK)
    assert (Runbook.objects.get().used_at, Runbook.objects.get().used_by) == (NOW, "responder")
    tick(one.pk, ASK)
    assert AuditEntry.objects.filter(verb="runbook.tick").count() == 1, "a second click does nothing"
    tick(one.pk, ASK, "undo")
    assert not RunbookTick.objects.exists()
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.before["step"]) == ("runbook.untick", ASK)


def test_what_was_written_otherwise_is_ticked_no_more_and_viewers_tick_nothing() -> None:
    one = question()
    write()
    tick(one.pk, ASK)
    write("- Ask the other provider", version="1")
    assert done_of(one) == [False]
    client, gone = signed_in(Role.RESPONDER, "responder"), {"done": key_of("Say so to customers")}
    refused = client.post(f"/escalations/{one.pk}/steps", gone)
    assert refused.headers["Location"] == f"/escalations/{one.pk}", "and not to the steps, as after a tick"
    assert [tick.step for tick in RunbookTick.objects.all()] == [ASK]
    assert tick(one.pk, "Ask the other provider", role=Role.VIEWER).status_code == 403
    assert 'role="checkbox"' not in signed_in(Role.VIEWER, "vera").get(f"/escalations/{one.pk}").content.decode()
    assert tick(999, "x").status_code == 404
    assert signed_in().get(f"/escalations/{one.pk}/steps").status_code == 405


def test_the_post_mortem_is_what_it_was() -> None:
    one = question()
    before = signed_in().get(f"/escalations/{one.pk}?format=json").json()
    write()
    tick(one.pk, ASK)
    assert signed_in().get(f"/escalations/{one.pk}?format=json").json() == before


# -- programs ----------------------------------------------------------------------------------------------------------
def test_a_program_reads_writes_and_ticks() -> None:
    one = question()
    client = Client(headers={"Authorization": f"Bearer {create_key('bot', ['read', 'act'], 'dev')[1]}"})
    assert client.get("/api/v1/runbooks/timeout").json()["runbook"]["markdown"] == ""
    assert client.get("/api/v1/runbooks/moon").status_code == 404
    body = {"reason": REASON, "markdown": STEPS, "owner": "payments", "review_on": "2026-12-31", "version": 0}
    put = client.put("/api/v1/runbooks/timeout", body, "application/json")
    assert put.json()["runbook"]["steps"][1] == ASK
    assert client.put("/api/v1/runbooks/timeout", body | {"version": 7}, "application/json").status_code == 409
    assert client.put("/api/v1/runbooks/moon", body, "application/json").status_code == 404
    assert client.put("/api/v1/runbooks/bug", body | {"review_on": "soon"}, "application/json").status_code == 400
    assert [row["category"] for row in client.get("/api/v1/runbooks").json()["runbooks"]] == ["timeout"]
    path = f"/api/v1/escalations/{one.pk}/steps"
    assert [step["done"] for step in client.get(path).json()["steps"]] == [False, False, False]
    done = client.post(path, {"reason": REASON, "step": ASK, "done": True}, "application/json")
    assert [step["done"] for step in done.json()["steps"]] == [False, True, False]
    undone = client.post(path, {"reason": REASON, "step": key_of(ASK), "done": False}, "application/json")
    assert not any(step["done"] for step in undone.json()["steps"])
    assert client.post(path, {"reason": REASON, "step": "nothing", "done": True}, "application/json").status_code == 409
    assert client.get("/api/v1/escalations/999/steps").status_code == 404
