"""Pages link no name that has no page: of events that name a run, an operation or no breaker, and tell little more."""

from __future__ import annotations

import pytest
from django.test import Client

from events.ingest.cardinality import Kind
from events.models import KnownName
from recovery_ops.rules.events import DegradationEnded, DegradationStarted, GateClosed
from recovery_ops.rules.roles import Role
from recovery_ops.wire import names
from tests.support.any_events import bare, store
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.fixture
def client() -> Client:
    return signed_in(Role.ADMIN)


def links(client: Client, page: str, begin: str) -> list[str]:
    """The links of a page that begin so."""
    shown = client.get(page)
    assert shown.status_code == 200
    return [one for one in Shown(shown).links if one.startswith(begin)]


@pytest.mark.parametrize("kind", [GateClosed, DegradationEnded])
def test_run_without_steps_has_no_data(client: Client, kind: type[GateClosed]) -> None:
    store(NOW, {kind: [bare(kind) | {names.RUN: "run-9"}]})
    Story().tell(heartbeat(), at=5, instance="r-0").store()
    found = links(client, "/agents/settings?service=research&instance=r-0", "/runs/run-9")
    assert found == ["/runs/run-9"]
    shown = client.get("/runs/run-9")
    assert (shown.status_code, shown.context["empty"].why) == (200, "nothing matches")
    assert client.get("/runs/run-8").status_code == 404


def test_capability_without_operation_is_no_link(client: Client) -> None:
    store(NOW, {DegradationStarted: [bare(DegradationStarted) | {names.ATTRIBUTES["from_name"]: "search"}]})
    assert links(client, "/degradations", "/policies/operations/") == []


def test_operation_silent_for_hours_keeps_its_page(client: Client) -> None:
    KnownName.objects.create(environment="dev", kind=Kind.OPERATION.value, name="quote", seen_day=1)
    assert client.get("/policies/operations/quote").context["is_silent"]
    assert client.get("/policies/operations/other").status_code == 404


def test_no_breaker_means_no_link_to_trip(client: Client) -> None:
    assert links(client, "/bulk", "/breakers/*/trip") == []
    Story().tell(heartbeat(), at=5).store()
    assert links(client, "/bulk", "/breakers/*/trip") == []
