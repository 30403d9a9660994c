"""Saved views: one's own and the team's, opened by link, chosen as default, and nobody else's to change."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from recovery_ops.control.models import AuditEntry, DefaultView, SavedView
from recovery_ops.control.roles import Role
from tests.support.pages import signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

QUERY = "range=1h&provider=helios"


def act(client: Client, what: str, **changed: Any) -> Any:
    form = {"screen": "failures", "query": QUERY, "act": what, "name": "mornings", "for": "me"} | changed
    return client.post("/views", form)


def saved(client: Client, **changed: Any) -> SavedView:
    assert act(client, "save", **changed).status_code == 303
    return SavedView.objects.latest("pk")


def test_a_view_is_kept_listed_and_opened_as_it_was() -> None:
    client = signed_in()
    view = saved(client, query=f"{QUERY}&environment=dev&before=5&all=1")
    assert (view.query, view.is_team) == (QUERY, False)
    page = client.get(f"/views?screen=failures&query={QUERY}")
    assert f'href="/failures?{QUERY.replace("&", "&amp;")}&amp;view={view.pk}"' in page.content.decode()
    assert AuditEntry.objects.get().verb == "view.save"
    assert saved(client, query="range=6h").pk == view.pk, "the same name is the same view"


def test_a_private_view_is_there_for_its_owner_alone() -> None:
    view = saved(signed_in(name="ana"))
    bob = signed_in(name="bob")
    assert "mornings" not in text_of(bob.get("/views?screen=failures"))
    for what in ("default", "rename", "delete"):
        assert act(bob, what, view=view.pk).status_code == 404
    assert SavedView.objects.count() == 1


def test_a_team_view_is_seen_by_all_and_changed_by_its_owner() -> None:
    view = saved(signed_in(Role.RESPONDER, name="ana"), **{"for": "team"})
    bob = signed_in(Role.RESPONDER, name="bob")
    assert "mornings" in text_of(bob.get("/views?screen=failures"))
    assert act(bob, "delete", view=view.pk).status_code == 403
    assert act(bob, "default", view=view.pk).status_code == 303
    assert act(signed_in(Role.VIEWER, name="eva"), "save", **{"for": "team"}).status_code == 403


def test_a_page_opens_with_the_chosen_view_unless_its_address_says_more() -> None:
    client = signed_in()
    view = saved(client)
    act(client, "default", view=view.pk)
    assert client.get("/failures").headers["Location"] == f"/failures?{QUERY}&view={view.pk}"
    for asked in ("?view=none", "?range=15m"):
        assert client.get(f"/failures{asked}").status_code == 200
    assert client.get("/failures", headers={"x-fragment": "failures"}).status_code == 200
    assert signed_in(name="bob").get("/failures").status_code == 200
    act(client, "default", view=view.pk)
    assert client.get("/failures").status_code == 200


def test_a_view_is_renamed_and_deleted_with_what_opened_with_it() -> None:
    client = signed_in()
    view = saved(client)
    saved(client, name="other")
    assert act(client, "rename", view=view.pk, name="other").status_code == 422
    view.refresh_from_db()
    assert view.name == "mornings"
    act(client, "rename", view=view.pk, name="evenings")
    view.refresh_from_db()
    assert view.name == "evenings"
    act(client, "default", view=view.pk)
    act(client, "delete", view=view.pk)
    assert not DefaultView.objects.exists()
    assert client.get("/failures").status_code == 200


@pytest.mark.parametrize(
    ("changed", "status"),
    [({"name": " "}, 422), ({"name": "x" * 61}, 422), ({"screen": "settings"}, 404), ({"act": "eat"}, 404)],
)
def test_what_makes_no_sense_is_refused_with_a_word(changed: dict[str, str], status: int) -> None:
    client = signed_in()
    answer = act(client, changed.pop("act", "save"), **changed)
    assert answer.status_code == status
    assert not SavedView.objects.exists()


def test_a_page_says_with_which_view_it_was_opened_and_whether_it_was_changed_since() -> None:
    client = signed_in(name="ana")
    view = saved(client)
    as_saved = client.get(f"/failures?provider=helios&range=1h&view={view.pk}&peek=row-1")
    assert "mornings" in text_of(as_saved)
    assert "modified" not in text_of(as_saved)
    changed = client.get(f"/failures?range=6h&provider=helios&view={view.pk}")
    assert "mornings modified" in text_of(changed)
    assert "name=mornings" in changed.content.decode(), "the form offers to keep it under its name"
    assert "mornings" not in text_of(signed_in(name="bob").get(f"/failures?{QUERY}&view={view.pk}"))
    assert "mornings" not in text_of(client.get(f"/runs?{QUERY}&view={view.pk}"))
