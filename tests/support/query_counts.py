"""The number of SQL queries that a page takes."""

from __future__ import annotations

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.runbooks.markdown import key_of
from recovery_ops.control.runbooks.services import save_runbook, tick_step
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.actions import asked
from tests.support.channels import EVA, channel
from tests.support.escalation_pages import questions
from tests.support.escalation_policies import chain
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW


def asked_of(client: Client, path: str) -> int:
    """How many queries a page takes."""
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path, headers={"X-Fragment": "all"} if path == "/counts" else {}).status_code == 200
    return len(queries)


def asked_question() -> str:
    """The page of a question that has all that a question can have: a chain, a message, steps, a tick."""
    [one] = questions("search_web", category=Category.TIMEOUT)
    chain((0, channel(name="chat")), (15, channel(name="lead")))
    tell("dev", NOW)
    save_runbook(**asked(by=EVA, category="timeout", text="- call the vendor"))
    tick_step(**asked(by=EVA, number=one.pk, step=key_of("call the vendor"), is_done=True))
    page = f"/escalations/{one.pk}"
    said = text_of(signed_in(Role.EDITOR).get(page))
    assert all(words in said for words in ("call the vendor", "1 of 1", "lead"))
    return page
