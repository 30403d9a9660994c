"""The audit log narrowed: by whom, about what, when, with what outcome; each row checked, and the way back offered."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery_ops.control.audit import selectors as audit_asking
from recovery_ops.control.audit.views import log
from recovery_ops.control.audit.views.log import Chain
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.audit_log import AuditRecord, append
from recovery_ops.control.policies.services import policies as policies_services
from recovery_ops.control.policies.services import releases as releases_services
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person, trip
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import held, sent, signed_in, troubled_fleet
from tests.support.stories import NOW
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def written(number: int, *, ago_s: float = 0, **said: str) -> None:
    """An entry as an act writes one, so long ago."""
    about: dict[str, Any] = {"verb": "breaker.trip", "object": f"tool-{number}", "operation": f"tool-{number}"}
    deed = AuditRecord(**(about | said))
    append("dev", deed, by=person(name="ana" if number % 2 else "ben"), at=NOW - timedelta(seconds=ago_s))


def numbers_in(path: str) -> list[int]:
    page = signed_in(Role.VIEWER).get(path).content.decode()
    return [int(number) for number in re.findall(r'data-key="entry-(\d+)"', page)]


def some() -> None:
    """Four entries: 4 is the newest, of ben, refused; 2 was a week ago."""
    written(1, ago_s=9 * 86_400, reason="a drill on the first floor")
    written(2, ago_s=7 * 86_400, verb="policy.edit", object="policy 7")
    written(3, ago_s=60, reason="the provider answers 529")
    written(4, code="stale")


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("who=ana", [3, 1]),
        ("kind=person", [4, 3, 2, 1]),
        ("kind=system", []),
        ("did=breaker.trip", [4, 3, 1]),
        ("did=breaker", [4, 3, 1]),
        ("did=break", []),
        ("object=OOL-2", [2]),
        ("object=policy", [2]),
        ("outcome=refused", [4]),
        ("outcome=ok", [3, 2, 1]),
        ("q=529", [3]),
        ("override=yes", [4, 3, 1]),
        ("override=no", [2]),
        ("q=stale", [4]),
        ("who=ana&did=breaker&q=drill", [1]),
        ("range=1h", [3]),
        ("from=2026-11-01&to=2026-11-15T00:00:00Z", [2, 1]),
        ("range=30d&who=ben", [2]),
    ],
)
def test_the_log_is_narrowed_on_the_page_in_files_and_for_programs_alike(query: str, numbers: list[int]) -> None:
    some()
    assert numbers_in(f"/audit?{query}") == numbers
    told = signed_in(Role.VIEWER).get(f"/audit?{query}&format=json").json()["rows"]
    assert [one["number"] for one in told] == numbers
    if "range" not in query:
        found = Program("read").get(f"audit?{query.replace('2026-11-01&', '2026-11-01T00:00:00Z&')}")[1]
        assert [one["number"] for one in found["entries"]] == numbers


def test_an_address_that_asks_for_too_much_or_nonsense_is_answered() -> None:
    some()
    for query in (f"q={'x' * 5000}", "before=moon", "from=moon", "outcome=moon", "did=%25"):
        assert signed_in(Role.VIEWER).get(f"/audit?{query}").status_code == 200
    assert Program("read").get("audit?from=moon")[0] == 400


def test_what_keeps_out_most_is_named_and_let_go_with_one_click() -> None:
    some()
    page = signed_in(Role.VIEWER).get("/audit?who=ana&outcome=refused")
    empty = Shown(page).one("why", "nothing matches")
    assert untold(empty.text, 0, 4, 2) == [], "of how many none is left, and how many there would be without it"
    assert Shown(empty).links == ["?who=ana"]


def test_a_range_without_entries_is_good_and_not_tampering() -> None:
    written(1, ago_s=86_400)
    page = signed_in(Role.VIEWER).get("/audit?range=1h")
    assert Shown(page).values("why") == ["all good"]
    assert page.context["badge"].chain is Chain.EMPTY


def test_each_narrowed_row_is_checked_against_the_one_before_it() -> None:
    some()
    whole = Shown(signed_in().get("/audit?who=ana")).one("chain", Chain.WHOLE)
    assert untold(whole.text, 2) == [], "the rows that were checked"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE control_auditentry SET reason = 'x' WHERE number = 3")
    assert Shown(signed_in().get("/audit?who=ana")).one("chain", Chain.CHANGED).data["entry"] == "3"
    assert Shown(signed_in().get("/audit?did=policy")).values("chain") == [Chain.WHOLE]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM control_auditentry WHERE number = 2")
    assert Shown(signed_in().get("/audit?who=ana")).one("chain", Chain.MISSING).data["entry"] == "2"


def test_a_page_looks_at_so_many_entries_and_offers_those_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_asking, "READ", 3)
    for number in range(1, 8):
        written(number)
    page = signed_in(Role.VIEWER).get("/audit?object=tool-1")
    none = Shown(page).one("why", "nothing matches")
    assert Shown(none).links == ["?object=tool-1&before=5"]
    assert numbers_in("/audit?object=tool-1&before=2") == [1]


def test_pages_of_log_show_each_entry_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST", 3)
    for number in range(1, 9):
        written(number)
    client, path, met = signed_in(Role.VIEWER), "/audit", list[int]()
    while path:
        page = client.get(path).content.decode()
        met += [int(number) for number in re.findall(r'data-key="entry-(\d+)"', page)]
        further = re.search(r'href="(\?before=\d+)"', page)
        path = f"/audit{further[1]}" if further else ""
    assert met == list(range(8, 0, -1))


def test_a_histogram_tells_how_many_were_done_and_refused_and_when() -> None:
    some()
    rows = Shown(signed_in().get("/audit?range=30d")).having("done")
    assert [(one.data["done"], one.data["refused"]) for one in rows] == [("1", "0")] * 3
    assert all(re.match(r"(\d+ Nov )?00:00\b", one.text) for one in rows)


def test_the_number_of_queries_does_not_grow_with_the_log() -> None:
    some()
    client = signed_in(Role.EDITOR)
    client.get("/audit")
    asked_for = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/audit?who=ana&range=30d").status_code == 200
        asked_for.append(len(queries))
        for number in range(5, 60):
            written(number)
        client.get("/audit")
    assert asked_for[0] == asked_for[1] <= 15


def ways(role: Role = Role.ADMIN, name: str = "ana") -> list[str]:
    """Where the ways back lead."""
    entries = Shown(signed_in(role, name=name).get("/audit")).having("key")
    return [one.attributes["href"] for entry in entries for one in Shown(entry).having("dialog")]


def test_what_was_tripped_is_let_go_from_the_log_while_it_holds() -> None:
    troubled_fleet()
    client = signed_in()
    override = held(client)
    assert ways() == [f"/breakers/search_web/release?override={override.pk}"]
    assert client.get(ways()[0]).status_code == 200
    client.post("/breakers/search_web/release", sent(key="k-2", seen="1"))
    assert Override.objects.get().ended_at is not None
    assert ways() == ["/breakers/search_web/trip"]
    assert ways(Role.VIEWER, "eva") == []


def test_a_policy_is_rolled_back_from_the_log_while_it_is_live() -> None:
    troubled_fleet()
    for number in (1, 2):
        policies_services.set_operation_policy(**asked(operation="search_web", settings={"max_retries": number}))
    assert ways() == ["/policies/releases/1"]
    releases_services.roll_back(**asked(version=1))
    assert ways() == ["/policies/releases/2"]


def test_what_was_refused_has_no_way_back() -> None:
    trip(ahead=True)
    append("dev", AuditRecord(verb="breaker.trip", object="x", code="stale"), by=system_actor("tests"), at=NOW)
    assert len(ways()) == 1


def test_a_store_of_logs_goes_on_behind_the_last_row_that_it_kept() -> None:
    some()
    client = Program("read")

    def rows(after: int, **more: str) -> list[int]:
        answer = client.raw(f"audit/stream?after={after}" + "".join(f"&{name}={value}" for name, value in more.items()))
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line)["number"] for line in answer.content.splitlines()]

    assert rows(0, limit="3") == [1, 2, 3]
    assert rows(3) == [4]
    assert rows(4) == []
    assert client.raw("audit/stream?after=-1").status_code == 400
    assert Program("ingest").raw("audit/stream").status_code == 403


def numbers_over(path: str) -> list[int]:
    """The numbers in the heading of the table."""
    page = signed_in(Role.VIEWER).get(path).content.decode()
    [heading] = re.findall(r'aria-label="Entries"><header><h2>(.*?)</h2>', page)
    return [int(number) for number in re.findall(r"\d+", heading)]


def test_how_many_entries_there_are_does_not_change_from_page_to_page() -> None:
    for number in range(1, 121):
        written(2 * number - 1)
    assert numbers_over("/audit?who=ana") == [50, 120]
    for before, shown in ((71, 50), (21, 20)):
        assert numbers_over(f"/audit?who=ana&before={before}") == [shown], "how many there are is told on the first"
