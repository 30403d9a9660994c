"""Templates: offered where there is no policy yet and where a draft begins; each is a document that agents take."""

from __future__ import annotations

import json
from html import unescape

import pytest

from recovery_ops.control import actions
from recovery_ops.control.policy_templates import TEMPLATES, begun_with
from recovery_ops.control.roles import Role
from recovery_ops.rules.policy import BUILT_IN, document_of, parse_policy
from tests.support.actions import asked, person
from tests.support.pages import signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.mark.parametrize("name", [one.name for one in TEMPLATES])
def test_each_is_the_live_policy_with_its_own_defaults(name: str) -> None:
    live = document_of(BUILT_IN)
    [template] = [one for one in TEMPLATES if one.name == name]
    begun = parse_policy(begun_with(live, name))
    for knob, value in template.knobs.items():
        assert getattr(begun.defaults["model"], knob) == value
    assert begun.defaults.get("undeclared") == parse_policy(live).defaults.get("undeclared")
    assert begun.rules == BUILT_IN.rules
    page = unescape(signed_in(Role.EDITOR).get(f"/policies/proposals/new?template={name}&mode=json").content.decode())
    text = page.partition(' id="text"')[2].partition(">")[2].partition("</textarea>")[0]
    assert json.loads(text) == begun_with(live, name)
    assert "defaults.model" in page.partition("What changes")[2]


def test_they_are_offered_while_there_is_no_policy_to_who_may_propose_one() -> None:
    assert "Begin with" not in text_of(signed_in(Role.VIEWER).get("/policies"))
    client = signed_in(Role.EDITOR)
    assert TEMPLATES[0].effect in text_of(client.get("/policies"))
    assert "Begin with" in text_of(client.get("/policies/proposals/new?template=moon"))
    made = actions.propose(**asked(by=person(Role.EDITOR, "eva"), title="a start", document=document_of(BUILT_IN)))
    assert "Begin with" not in text_of(client.get("/policies"))
    assert "Begin with" not in text_of(client.get(f"/policies/proposals/{made.object.number}/edit?template=swift"))
