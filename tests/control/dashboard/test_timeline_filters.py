"""Timelines of one provider, model, service or tag: page, figure, tables and files are narrowed alike."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.timelines.charts import Band
from recovery_ops.control.dashboard.models import Annotation
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import BreakerRejected
from tests.support.pages import signed_in, text_of
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

RANGE = "from=2026-11-21T13:26:19Z&to=2026-11-21T14:26:19Z"


@pytest.fixture(autouse=True)
def two_services() -> None:
    """billing calls sol and fails; research calls helios and fails more often."""
    story = Story()
    for service, name, provider, failures in (("billing", "charge", "sol", 2), ("research", "lookup", "helios", 5)):
        given: dict[str, Any] = {"service": service, "instance": f"{service}-0"}
        story.tell(heartbeat(), at=3000, **given).tell(
            heartbeat(), counted(30, name, provider=provider), at=30, **given
        )
        story.tell(moved(State.OPEN, breaker=name), at=600, **given)
        for at in range(failures):
            failure = failed(Category.OVERLOADED, operation=name, breaker=name, provider=provider, model="large")
            story.tell(failure, at=620 + at, **given)
    story.store()
    for number, tags in enumerate(("|deploy|eu|", "|freeze|", ""), 1):
        Annotation.objects.create(
            environment="dev", number=number, text=f"note {number}", tags=tags, at=NOW - timedelta(minutes=5),
            by="ana", made_at=NOW,
        )  # fmt: skip


def refusals(query: str) -> Band:
    """The band of calls that were not made."""
    band: Band | None = signed_in().get(f"/timelines?{RANGE}&{query}").context["chart"].band("rejections")
    assert band is not None
    return band


def tables(query: str) -> str:
    """All tables of the range as a file."""
    answer = signed_in().get(f"/timelines?{RANGE}&{query}&format=md")
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("query", ["service=billing", "provider=sol"])
def test_one_service_or_provider_leaves_its_own(query: str) -> None:
    told = tables(query)
    assert "charge" in told
    assert "lookup" not in told
    assert "helios" not in told
    assert "lookup" in tables("")


def test_models_cross_providers_and_what_is_not_there_leaves_nothing() -> None:
    both = tables("model=large")
    assert "charge" in both
    assert "lookup" in both
    assert "charge" not in tables("model=other")


def test_what_a_breaker_refused_is_its_providers_and_of_no_model() -> None:
    story = Story()
    for service, name, count in (("billing", "charge", 7), ("research", "lookup", 900)):
        refused = BreakerRejected(operation=name, breaker=name, state=State.OPEN, count=count)
        story.tell(refused, at=40, service=service, instance=f"{service}-0")
    story.tell(counted(3, "calm", provider="quiet"), at=9000, received=9000, service="billing", instance="billing-0")
    story.tell(moved(State.OPEN, breaker="calm"), at=300, service="billing", instance="billing-0")
    story.tell(BreakerRejected(operation="calm", breaker="calm", state=State.OPEN, count=4), at=40, service="billing",
               instance="billing-0").store()  # fmt: skip
    assert left_out(refusals("provider=sol").caption, "7") == []
    idle = refusals("provider=quiet")
    assert left_out(idle.caption, "4") == [], "its breaker lets nothing through, so nobody named it in the range"
    assert "calm" in tables("provider=quiet")
    assert not idle.is_untold
    for query in ("model=large", "provider=nobody"):
        untold = refusals(query)
        assert (untold.is_untold, untold.table.rows, untold.traces) == (True, (), ())
        assert untold.caption in tables(query)
        assert not re.search(r"\d", untold.caption), "no count, not even of none"


def test_a_tag_leaves_its_annotations_and_all_facts() -> None:
    told = tables("tag=deploy")
    assert "note 1" in told
    assert "note 2" not in told
    assert "note 3" not in told
    assert "charge" in told


def test_the_address_is_the_state() -> None:
    client = signed_in()
    query = "provider=sol&service=billing&tag=freeze"
    answer = client.get(f"/timelines?{RANGE}&{query}&view=table")
    page = answer.content.decode()
    assert f'data-figure-url="/timelines/figure?{query.replace("&", "&amp;")}&amp;from=' in page
    assert f'data-copy-link="/timelines?{query.replace("&", "&amp;")}&amp;from=' in page
    assert "<option selected>sol</option>" in page
    assert {name: value for name, value, _ in answer.context["filters"]} == {
        "provider": "sol",
        "model": "",
        "service": "billing",
        "tag": "freeze",
    }
    assert left_out(answer.context["asked"].words, "sol", "billing", "freeze") == []
    assert answer.context["asked"].words in text_of(answer)
    assert "note 2" in text_of(answer)
    assert "lookup" not in client.get(f"/timelines/figure?{RANGE}&provider=sol").json()["caption"]


def test_a_narrower_figure_asks_no_more() -> None:
    client = signed_in()
    client.get("/timelines")
    counts = []
    for query in ("", "provider=sol&service=billing&model=large&tag=deploy"):
        with CaptureQueriesContext(connection) as asked:
            client.get(f"/timelines?{RANGE}&{query}")
        counts.append(len(asked))
    assert counts[1] <= counts[0]
