"""Saved views: a person's own, opened by their link, and nobody else's to see or change."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.saved_views.models import SavedView
from tests.support.pages import signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

QUERY = "range=1h&provider=helios"


def act(client: Client, what: str, **changed: Any) -> Any:
    form = {"screen": "failures", "query": QUERY, "act": what, "name": "mornings"} | changed
    return client.post("/views", form)


def saved(client: Client, **changed: Any) -> SavedView:
    assert act(client, "save", **changed).status_code == 303
    return SavedView.objects.latest("pk")


def test_a_view_is_kept_listed_and_opened_as_it_was() -> None:
    client = signed_in()
    view = saved(client, query=f"{QUERY}&environment=dev&before=5&all=1")
    assert view.query == QUERY
    page = client.get(f"/views?screen=failures&query={QUERY}")
    assert f'href="/failures?{QUERY.replace("&", "&amp;")}&amp;view={view.pk}"' in page.content.decode()
    assert saved(client, query="range=6h").pk == view.pk, "the same name is the same view"
    assert not AuditEntry.objects.exists()


def test_a_view_is_there_for_its_owner_alone() -> None:
    view = saved(signed_in(name="ana"))
    bob = signed_in(name="bob")
    assert "mornings" not in text_of(bob.get("/views?screen=failures"))
    for what in ("rename", "delete"):
        assert act(bob, what, view=view.pk, name="mine").status_code == 404
    assert saved(bob).pk != view.pk, "two people use one name"
    view.refresh_from_db()
    assert view.name == "mornings"


def test_a_view_is_renamed_and_deleted() -> None:
    client = signed_in()
    view = saved(client)
    saved(client, name="other")
    assert act(client, "rename", view=view.pk, name="other").status_code == 422
    view.refresh_from_db()
    assert view.name == "mornings"
    saved(client, name="evenings", screen="runs")
    saved(signed_in(name="bob"), name="evenings")
    act(client, "rename", view=view.pk, name="evenings")
    view.refresh_from_db()
    assert view.name == "evenings"
    act(client, "delete", view=view.pk)
    assert not SavedView.objects.filter(pk=view.pk).exists()
    assert SavedView.objects.count() == 3


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"name": " "}, 422),
        ({"name": "x" * 61}, 422),
        ({"screen": "settings"}, 404),
        ({"act": "eat"}, 404),
        ({"act": "delete", "view": "x"}, 404),
    ],
)
def test_wrong_view_is_rejected(changed: dict[str, str], status: int) -> None:
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
