"""A provider, a model and a service that are kept to from screen to screen: chips, links, and what is not narrowed."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from events.pages.empties import Why
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of, troubled_fleet
from tests.support.sentences import left_out
from tests.support.stories import Story, counted, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

KEPT = "provider=helios&model=large"
SCREENS = ("/", "/capacity", "/breakers", "/timelines", "/escalations", "/failures", "/runs", "/policies", "/agents")
ON = ('data-kept="2"', "provider helios", "model large")


@pytest.fixture(autouse=True)
def two_backends() -> None:
    """helios / large answers 529 to research, selene / small 429 to billing; each in a run."""
    troubled_fleet()
    story = Story()
    limited = failed(
        Category.RATE_LIMITED, "rank", provider="selene", model="small", status_code=429, message="selene is short"
    )
    who: dict[str, Any] = {"instance": "b-0", "service": "billing", "run": "run-2"}
    story.tell(heartbeat(), counted(60, "rank"), at=900, instance="b-0", service="billing")
    story.tell(heartbeat(), at=5, instance="b-0", service="billing")
    story.tell(*[limited] * 3, at=30, **who)
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=20.0), at=20, **who)
    story.store()


def page(address: str, role: Role = Role.RESPONDER) -> str:
    answer = signed_in(role).get(address)
    assert answer.status_code == 200, address
    return str(answer.content.decode())


def said(address: str) -> str:
    return text_of(signed_in().get(address))


def nav_of(html: str) -> list[str]:
    """Where the navigation leads."""
    links = [unescape(one) for one in re.findall(r'<a class="item" href="([^"]+)"', html)]
    return [one for one in links if not one.startswith("/scope")]


@pytest.mark.parametrize("screen", SCREENS)
def test_chips_stand_on_every_screen_and_the_navigation_takes_them_along(screen: str) -> None:
    html = page(f"{screen}?{KEPT}&range=1h")
    assert all(words in html for words in ON)
    links = nav_of(html)
    assert len(links) > 8
    assert [one for one in links if f"range=1h&{KEPT}" not in one] == []
    chips = dict(re.findall(r'<a class="chip" href="([^"]*)" aria-current="true">(provider|model) ', html))
    assert {name: unescape(href) for href, name in chips.items()} == {
        "provider": "?model=large&range=1h",
        "model": "?provider=helios&range=1h",
    }


def test_nothing_is_kept_to_unless_the_address_says_so() -> None:
    client = signed_in()
    client.get(f"/capacity?{KEPT}")
    assert Shown(client.get("/capacity")).values("kept") == []


@pytest.mark.parametrize(
    ("screen", "is_there", "is_gone"),
    [
        ("/capacity?provider=helios", "helios / large", "selene / small,"),
        ("/failures?service=billing", "selene is short", "overloaded 529"),
        ("/runs?provider=selene", "run-2", "run-1"),
        ("/runs?service=research", "run-1", "run-2"),
        ("/runs?model=small", "run-2", "run-1"),
        ("/agents?service=billing", "b-0", "r-2"),
        ("/breakers?provider=helios", "search_web", "calm"),
        ("/?provider=selene", "worst selene / small", "worst helios"),
    ],
)
def test_screens_that_know_it_are_narrowed(screen: str, is_there: str, is_gone: str) -> None:
    html = page(screen)
    text = said(screen)
    assert is_there in text
    if screen.startswith(("/?", "/failures", "/runs")):
        assert is_gone not in text
    assert Shown(html).values("untold") == []


@pytest.mark.parametrize(
    ("screen", "untold"),
    [
        ("/agents", "provider model"),
        ("/breakers", "model"),
        ("/audit", "provider model"),
        ("/runs/run-1", "provider model"),
    ],
)
def test_a_screen_that_does_not_know_it_says_so(screen: str, untold: str) -> None:
    html = page(f"{screen}?{KEPT}", Role.OPERATOR)
    assert Shown(html).values("untold") == [untold]
    assert Shown(html).values("unheard") == []


def test_the_overview_says_which_part_is_narrowed_and_draws_no_other_backend() -> None:
    shown = Shown(page("/?provider=selene"))
    assert (shown.values("in-part"), shown.values("untold")) == ([""], [])
    strip = said("/overview/strip?range=1h&provider=selene")
    assert "selene / small" in strip
    assert "helios" not in strip
    assert "helios / large" in said("/overview/strip?range=1h")


@pytest.mark.parametrize("screen", ["breakers", "escalations"])
def test_figures_above_a_narrowed_list_are_said_to_be_of_everything(screen: str) -> None:
    assert Shown(page(f"/{screen}?provider=nobody")).values("in-part") == [""]


def test_that_nothing_failed_of_what_is_kept_to_is_not_that_nothing_failed() -> None:
    answer = signed_in().get("/failures?range=1h&provider=nobody")
    assert Shown(answer).values("why") == [Why.NO_MATCH]
    assert left_out(answer.context["sentence"], "5") == []


def test_the_form_that_snoozes_a_provider_keeps_nobody_to_it() -> None:
    html = page("/settings/notifications/snoozes/new?provider=helios", Role.OPERATOR)
    assert Shown(html).values("kept") == []
    assert not any("provider=" in one for one in nav_of(html))


def test_what_capacity_draws_and_counts_is_of_that_backend() -> None:
    answer = signed_in().get("/capacity?range=1h&provider=selene")
    limited, overloaded = answer.context["tiles"][:2]
    assert (limited.title, left_out(limited.detail, "3")) == ("429", [])
    assert (overloaded.title, left_out(overloaded.detail, "0")) == ("529", [])
    assert "3 × 429 or 529" in text_of(answer)
    assert Shown(answer).values("in-part") == [""]
    assert "5 × 429 or 529" in said("/capacity?range=1h")


def test_the_overviews_figure_went_as_that_backend_did() -> None:
    everybody, one = said("/?range=1h"), said("/?range=1h&provider=selene")
    assert "5 in 1h" in everybody
    assert "3 in 1h" in one
    told = [tile for tile in signed_in().get("/?range=1h&provider=moon").context["tiles"] if "moon" in tile.detail]
    assert [left_out(tile.detail, "429", "529", "moon") for tile in told] == [[]]


def test_links_to_what_a_line_is_about_take_it_along() -> None:
    html = page(f"/failures?{KEPT}&range=1h")
    [link] = re.findall(r'class="clamp" href="([^"]+)"', html)
    assert unescape(link).endswith(f"?range=1h&{KEPT}")


def test_a_page_about_one_service_keeps_nobody_to_it() -> None:
    html = page("/agents/settings?service=research&instance=r-0")
    assert Shown(html).values("kept") == []
    assert not any("service=" in one for one in nav_of(html))


def test_what_is_kept_to_is_escaped() -> None:
    html = page('/audit?provider="><img src=x onerror=alert(1)>')
    assert "<img" not in html
    assert Shown(html).values("kept") == ["1"]


# -- choosing it -------------------------------------------------------------------------------------------------------
def test_it_is_chosen_from_what_there_is_and_leads_back() -> None:
    html = page("/scope?back=/capacity%3Frange%3D1h%26provider%3Dhelios%26cursor%3Dx")
    assert 'method="get" action="/capacity"' in html
    assert '<input type="hidden" name="range" value="1h">' in html
    assert 'name="cursor"' not in html
    assert '<option value="helios" selected>' in html
    for name in ("selene", "small", "large", "billing", "research"):
        assert f'<option value="{name}">' in html, name


@pytest.mark.parametrize("back", ["https://example.org/", "//example.org/x", "/nowhere/at/all", "x:1", "\\\\x"])
def test_it_leads_nowhere_else(back: str) -> None:
    html = page(f"/scope?back={back}")
    assert 'method="get" action="/"' in html
    assert "example.org" not in html.partition('<form class="act"')[2]


def test_a_saved_view_keeps_it() -> None:
    client = signed_in(Role.RESPONDER)
    form = {"screen": "failures", "query": f"{KEPT}&range=1h", "act": "save", "name": "helios"}
    assert client.post("/views", form).status_code == 303
    assert "provider=helios" in client.get("/views?screen=failures").content.decode()
