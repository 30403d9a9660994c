"""Every list of the API, walked page by page: each row once, whatever comes meanwhile, and no page without an end."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from events import keys
from events.capacity.models import CapacityEvent
from events.issues.anew import sum_failures_anew
from events.models import AgentKey, Fact, Quarantine
from events.moments import to_us
from recovery_ops.control import api_urls, models
from recovery_ops.control.api_docs.openapi import openapi
from recovery_ops.control.core.cursors import cursor_of
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import DegradationStarted, RunStarted
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import trip
from tests.support.api_client import Program
from tests.support.fleet import seen_now
from tests.support.html import Shown as Page
from tests.support.pages import signed_in
from tests.support.rows import row
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

pytestmark = pytest.mark.django_db

TODAY = timezone.now()
RANGE = {"from": (NOW - timedelta(hours=20)).isoformat(), "to": (NOW + timedelta(minutes=1)).isoformat()}


@dataclass(frozen=True)
class Listed:
    """One list: where its rows stand, by what one is told from another, and how its n-th row comes to be."""

    path: str
    rows: str
    name: str | Callable[[Any], Any]
    make: Callable[[int], Any]
    asked: dict[str, str]


def numbered(model: Any, **said: Any) -> Callable[[int], Any]:
    return lambda number: row(model, environment="dev", **{"number": number, **said})


def breaker(number: int) -> None:
    Story().tell(heartbeat(), moved(State.CLOSED, breaker=f"b-{number}"), at=5).store()
    seen_now()


def instance(number: int) -> None:
    Story().tell(heartbeat(), at=5, instance=f"r-{number}").store()
    seen_now()


def override(number: int) -> None:
    trip(scope=Scope(operation=f"b-{number}"), ahead=True, now=None)


def in_pairs(number: int) -> timedelta:
    """Two rows have the same moment to the microsecond."""
    return timedelta(minutes=number // 2)


def escalation(number: int) -> Any:
    due = TODAY + timedelta(days=1) + in_pairs(number)
    return row(models.Escalation, key=f"k-{number}", acknowledge_by=due, resolve_by=due, seen_at=TODAY)


def resolved(number: int) -> None:
    one = escalation(number)
    one.resolved_at = TODAY - in_pairs(number)
    one.save()


def cause(number: int) -> None:
    fact = failed(Category.OVERLOADED, f"op-{number // 2}-{number}", provider="helios", model="large")
    Story().tell(fact, at=60 + number // 2, run=f"run-{number}").store()


def unknown(number: int) -> None:
    Story().tell(failed(Category.UNKNOWN, f"op-{number}"), at=60 + number).store()
    now_us = to_us(timezone.now())
    Fact.objects.update(at_us=now_us - 60_000_000)
    sum_failures_anew()


def run(number: int) -> None:
    Story().tell(RunStarted(name="billing"), at=100 + number // 2, run=f"run-{number}").store()


def outage(number: int) -> None:
    at = to_us(NOW) - number // 2 * 1_000_000
    row(CapacityEvent, environment="dev", provider=f"p-{number}", model="m", started_us=at, last_us=at + 1)


def reduced(number: int) -> None:
    fact = DegradationStarted(operation=f"op-{number}", kind="fallback", reason="open", from_name="a", to_name="cache")
    Story().tell(heartbeat(), fact, at=50 + number // 2).store()


def amplified(number: int) -> None:
    Story().tell(counted(6, f"op-{number}"), at=50).store()


def spending(number: int) -> None:
    caps = {"spend_caps": {"day_calls": 10}}
    models.PolicyRelease.objects.first() or row(models.PolicyRelease, version=1, revision=1, document=caps)
    today = timezone.now()
    beat = heartbeat(spend_ledger=f"l-{number}", spent_calls={f"day:{today:%Y-%m-%d}": number // 2})
    Story().tell(beat, at=(NOW - today).total_seconds(), instance=f"a-{number}").store()


def channel(number: int) -> Any:
    return row(models.Channel, environment="dev", name=f"n-{number // 2}-{number}", kind="webhook")


def rule(number: int) -> None:
    row(models.NotificationRule, environment="dev", name=f"n-{number}", channel=channel(number), triggers=["capacity"])


def delivery(number: int) -> None:
    found = models.Channel.objects.first() or channel(number)
    row(models.Delivery, environment="dev", channel=found)


def proposal(number: int) -> Any:
    return row(models.PolicyProposal, environment="dev", number=number, document={})


def rollout(number: int) -> None:
    made = models.PolicyProposal.objects.first() or proposal(1)
    over = timezone.now()
    row(models.PolicyRollout, environment="dev", number=number, proposal=made, state="promoted", ended_at=over)


def ramp(number: int) -> None:
    row(models.ResetRamp, environment="dev", number=number, breakers=[], plan=[], state=models.ResetRamp.CANCELLED)


def export(number: int) -> None:
    asked_by = AgentKey.objects.latest("pk").prefix
    row(models.Export, environment="dev", number=number, what="audit", query="", address="", key_prefix=asked_by)


def view(number: int) -> None:
    owner, _ = User.objects.get_or_create(username="zoe")
    screen = "runs" if number % 2 else "audit"
    row(models.SavedView, environment="dev", owner=owner, screen=screen, name=f"v-{number}")


LISTS = [
    Listed("audit", "entries", "number", override, {}),
    Listed("breakers", "breakers", "name", breaker, {}),
    Listed("fleet", "agents", "instance", instance, {}),
    Listed("overrides", "overrides", "id", override, {}),
    Listed("requests", "requests", "number", numbered(models.ApprovalRequest, arguments={}), {}),
    Listed("resets", "resets", "number", ramp, {}),
    Listed("escalations", "escalations", "number", escalation, {}),
    Listed("escalations", "escalations", "number", resolved, {"tab": "resolved"}),
    Listed("failures", "failures", "fingerprint", cause, RANGE),
    Listed("failures/unclassified", "causes", "fingerprint", unknown, {}),
    Listed("annotations", "annotations", "number", numbered(models.Annotation, at=NOW, removed_at=None), RANGE),
    Listed("capacity/events", "events", "number", outage, RANGE),
    Listed("degradations", "degradations", "operation", reduced, RANGE),
    Listed("spend-accounts", "accounts", "ledger", spending, {}),
    Listed("amplification", "rows", "operation", amplified, RANGE),
    Listed("notifications/channels", "channels", "number", channel, {}),
    Listed("notifications/rules", "rules", "number", rule, {}),
    Listed("notifications/chains", "chains", "number", lambda n: row(models.EscalationChain, name=f"q-{n}"), {}),
    Listed("notifications/deliveries", "deliveries", "number", delivery, {}),
    Listed("policies/releases", "releases", "version", lambda n: row(models.PolicyRelease, version=n, revision=n), {}),
    Listed("policies/proposals", "proposals", "number", proposal, {"state": "all"}),
    Listed("policies/rollouts", "rollouts", "number", rollout, {}),
    Listed("policies/replays", "replays", "number", numbered(models.Replay), {}),
    Listed("runbooks", "runbooks", "category", lambda n: row(models.Runbook, category=f"c-{n}", text="- wait"), {}),
    Listed("exports", "exports", "number", export, {}),
    Listed("policies/golden", "golden", "number", lambda n: row(models.GoldenCase, number=n, run=f"run-{n}"), {}),
    Listed("feedback", "feedback", "number", numbered(models.Feedback), {}),
    Listed("runs", "runs", "run", run, RANGE | {"show": "all"}),
    Listed("quarantine", "lines", "number", lambda n: row(Quarantine, received_us=n, content="x"), {}),
    Listed("keys", "keys", "prefix", lambda n: keys.create_key(f"k-{n // 2}", ["ingest"], "dev"), {}),
    Listed("accounts", "accounts", "name", lambda n: signed_in(name=f"p-{n}"), {}),
]
IDS = [f"{one.path}{'?tab=resolved' if 'tab' in one.asked else ''}" for one in LISTS]


@pytest.fixture(autouse=True)
def _fresh_keys() -> None:
    keys.forget_keys()


def named(listed: Listed, found: Any) -> list[Any]:
    return [one[listed.name] for one in found[listed.rows]]


@pytest.mark.parametrize("listed", LISTS, ids=IDS)
def test_who_walks_the_pages_meets_each_row_once(listed: Listed) -> None:
    program = Program("read")
    for number in range(1, 6):
        listed.make(number)
    status, whole = program.get(listed.path, limit="50", **listed.asked)
    every = named(listed, whole)
    assert (status, len(every), len(set(every)), whole["next"]) == (200, 5 + (listed.path == "keys"), len(every), None)
    pages = [program.get(listed.path, limit="2", **listed.asked)[1]]
    listed.make(6)  # while somebody walks
    while pages[-1]["next"] is not None:
        assert pages[-1]["next"].startswith(f"/api/v1/{listed.path}?")
        assert len(pages) < 6
        pages.append(program.get(pages[-1]["next"].removeprefix("/api/v1/"))[1])
    met = [name for page in pages for name in named(listed, page)]
    assert len(met) == len(set(met)), "a row was met twice"
    assert [name for name in met if name in every] == every, "a row was missed, or the order changed"
    assert all(1 <= len(named(listed, page)) <= 3 for page in pages), "no page is empty"


NONSENSE = (
    {"cursor": "nonsense!"},
    {"cursor": cursor_of((1.5, "x", 2.5))},
    {"cursor": cursor_of((2**80,))},
    {"cursor": "W10"},
    {"cursor": "x" * 2000},
    {"limit": "0"},
    {"limit": "501"},
    {"limit": "two"},
)


@pytest.mark.parametrize("listed", LISTS, ids=IDS)
def test_what_is_no_cursor_or_no_limit_is_told(listed: Listed) -> None:
    program = Program("read")
    for asked in NONSENSE:
        status, problem = program.get(listed.path, **listed.asked, **asked)
        assert (status, list(problem["fields"])) == (400, list(asked)), asked
        assert next(iter(asked)) in problem["detail"]


def test_every_list_that_is_described_is_walked_here() -> None:
    paths = openapi(api_urls.urlpatterns)["paths"]
    described = {
        path.removeprefix("/api/v1/")
        for path, methods in paths.items()
        if "cursor" in {one["name"] for one in methods.get("get", {"parameters": []})["parameters"]}
    }
    assert described == {*(one.path for one in LISTS), "you/sessions"}


def test_breakers_that_open_meanwhile_are_neither_missed_nor_met_twice() -> None:
    for number in range(1, 5):
        breaker(number)
    program = Program("read")
    first = program.get("breakers", limit="2")[1]
    Story().tell(moved(State.OPEN, breaker="b-4"), moved(State.OPEN, breaker="b-1"), at=1).store()
    second = program.get(first["next"].removeprefix("/api/v1/"))[1]
    assert [one["name"] for one in (*first["breakers"], *second["breakers"])] == ["b-1", "b-2", "b-3", "b-4"]


def test_what_people_made_one_outage_has_one_place() -> None:
    for number in range(1, 6):
        outage(number)
    whole, part = CapacityEvent.objects.order_by("-started_us")[0], CapacityEvent.objects.order_by("started_us")[0]
    part.part_of = whole
    part.save()
    program = Program("read")
    page, met = program.get("capacity/events", limit="1", **RANGE)[1], []
    while True:
        met += [one["number"] for one in page["events"]]
        if page["next"] is None:
            break
        page = program.get(page["next"].removeprefix("/api/v1/"))[1]
    assert len(met) == len(set(met)) == 4
    assert whole.pk in met
    assert part.pk not in met


def test_the_range_of_the_first_page_is_that_of_the_others() -> None:
    for number in range(1, 4):
        cause(number)
    Fact.objects.update(at_us=to_us(timezone.now()) - 60_000_000)
    sum_failures_anew()
    program = Program("read")
    first = program.get("failures", limit="1")[1]
    assert "to=" in first["next"]
    assert "from=" in first["next"]


# -- on the pages -----------------------------------------------------------------------------------------------------
CONTROL = "recovery_ops.control."


@dataclass(frozen=True)
class Shown:
    """One list on a page: how many rows it shows at most is `most`; a row is told by what `found` matches."""

    path: str
    most: str
    make: Callable[[int], Any]
    found: str


PAGES = [
    Shown("/escalations", CONTROL + "escalations.views.queue.PAGE", escalation, r'data-key="(escalation-\d+)"'),
    Shown("/failures?range=24h", CONTROL + "issues.views.issues.SHOWN", cause, r'data-key="failure-([^"]+)"'),
    Shown("/capacity?range=24h", CONTROL + "capacity.views.incidents.MOST", outage, r'data-key="(event-\d+)"'),
    Shown(
        "/agents/intake",
        CONTROL + "self_monitoring.views.intake.MOST",
        lambda n: row(Quarantine, received_us=n, content="x"),
        r"Record (\d+)",
    ),
    Shown("/resets", CONTROL + "breakers.views.ramps.MOST", ramp, r'data-key="(ramp-\d+)"'),
    Shown(
        "/requests",
        CONTROL + "approvals.views.MOST",
        numbered(models.ApprovalRequest, arguments={}),
        r'data-key="(held-\d+)"',
    ),
    Shown(
        "/feedback",
        CONTROL + "policies.views.feedback.MOST",
        lambda n: row(models.Feedback, number=n, operation=f"op-{n}"),
        r"(op-\d+)",
    ),
    Shown(
        "/settings/keys",
        CONTROL + "access.views.keys.MOST",
        lambda n: keys.create_key(f"k-{n}", ["read"], "dev"),
        r">(k-\d+)<",
    ),
    Shown("/settings/access", CONTROL + "access.views.accounts.MOST", lambda n: signed_in(name=f"p-{n}"), r">(p-\d+)<"),
    Shown("/policies", CONTROL + "policies.views.policies.MOST_PROPOSALS", proposal, r"/policies/proposals/(\d+)"),
    Shown(
        "/failures/unclassified", CONTROL + "policies.views.unclassified.MOST", unknown, r'data-key="unknown-([^"]+)"'
    ),
    Shown("/views?screen=runs", CONTROL + "saved_views.views.MOST", lambda n: view(2 * n + 1), r">(v-\d+)<"),
    Shown(
        "/amplification?range=24h",
        CONTROL + "capacity.views.amplification.ROWS_MOST",
        amplified,
        r'data-key="spent-(op-\d+)',
    ),
    Shown(
        "/degradations?range=24h",
        CONTROL + "capacity.views.degradations.ROWS_MOST",
        reduced,
        r'data-key="reduced-(op-\d+)-fallback',
    ),
]


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("shown", PAGES, ids=[one.path for one in PAGES])
def test_what_a_page_cuts_stands_on_a_further_one(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(Role.ADMIN, "zoe")
    for number in range(1, 6):
        shown.make(number)
    whole = set(re.findall(shown.found, client.get(shown.path).content.decode()))
    assert len(whole) == 5
    monkeypatch.setattr(shown.most, 2)
    met: list[str] = []
    text = ""
    path, base = shown.path, shown.path.partition("?")[0]
    for _ in range(4):
        text = client.get(path).content.decode()
        found = list(dict.fromkeys(re.findall(shown.found, text)))
        assert len(found) <= 2
        met += found
        further = re.search(r'<a href="(\?[^"]*cursor=[^"]*)">Next', text)
        if further is None:
            break
        path = base + unescape(further[1])
    assert sorted(met) == sorted(whole), "each row once"
    assert ">First</a>" in text
    assert client.get(f"{base}?{'screen=runs&' if 'screen' in shown.path else ''}cursor=nonsense").status_code == 200


@pytest.mark.usefixtures("now")
def test_every_file_of_a_further_page_has_its_rows_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 4):
        outage(number)
    monkeypatch.setattr(CONTROL + "capacity.views.incidents.MOST", 2)
    client = signed_in(Role.VIEWER)
    first = client.get("/capacity?range=24h").content.decode()
    further = re.search(r'<a href="(\?[^"]*cursor=[^"]*)">Next', first)
    assert further is not None
    page = client.get(f"/capacity{unescape(further[1])}")
    part = Page(page).one("part", "page")
    assert "1 event" in part.text
    link = re.search(r'<a href="([^"]*format=json[^"]*)" download', page.content.decode())
    form = re.search(r'<form [^>]*id="export-form".*?</form>', page.content.decode(), re.S)
    assert link is not None
    assert form is not None
    fields = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form[0])
    by_link = client.get(f"/capacity{unescape(link[1])}").json()["rows"]
    by_form = client.get("/capacity", dict(fields) | {"only": "event", "format": "json"}).json()["rows"]
    assert [row["event"] for row in by_form] == [row["event"] for row in by_link]
    assert len(by_link) == 1
