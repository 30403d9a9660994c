"""Templates: offered where there is no policy yet and where a draft begins; each is a document that agents take."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest

from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.templates import TEMPLATES, begun_with
from recovery_ops.rules.policy.model import BUILT_IN, document_of, parse_policy
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.pages import signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.mark.parametrize("name", [one.name for one in TEMPLATES])
def test_each_is_the_live_policy_with_its_own_defaults(name: str) -> None:
    live = document_of(BUILT_IN)
    [template] = [one for one in TEMPLATES if one.name == name]
    begun = parse_policy(begun_with(live, name))
    for setting, value in template.settings.items():
        assert getattr(begun.defaults["model"], setting) == value
    assert begun.defaults.get("undeclared") == parse_policy(live).defaults.get("undeclared")
    assert begun.rules == BUILT_IN.rules
    page = unescape(signed_in(Role.EDITOR).get(f"/policies/proposals/new?template={name}&mode=json").content.decode())
    text = page.partition(' id="text"')[2].partition(">")[2].partition("</textarea>")[0]
    assert json.loads(text) == begun_with(live, name)
    assert "defaults.model" in page.partition("data-changes=")[2]


def is_offered(answer: Any) -> bool:
    """Whether the page lists the templates."""
    return 'id="templates-title"' in answer.content.decode()


def test_they_are_offered_while_there_is_no_policy_to_who_may_propose_one() -> None:
    assert not is_offered(signed_in(Role.VIEWER).get("/policies"))
    client = signed_in(Role.EDITOR)
    assert TEMPLATES[0].effect in text_of(client.get("/policies"))
    assert is_offered(client.get("/policies/proposals/new?template=moon"))
    made = proposals_services.propose(
        **asked(by=person(Role.EDITOR, "eva"), title="a start", document=document_of(BUILT_IN))
    )
    assert not is_offered(client.get("/policies"))
    assert not is_offered(client.get(f"/policies/proposals/{made.object.number}/edit?template=swift"))
