"""Lists as files: the rows that the page shows, safe in a spreadsheet; timelines as Markdown for a post-mortem."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import DegradationStarted
from recovery_ops.rules.roles import Role
from tests.support.pages import HOSTILE, held, signed_in, troubled_fleet
from tests.support.recoveries import busy
from tests.support.stories import Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

LISTS = {
    "breakers": "/breakers",
    "capacity": "/capacity",
    "escalations": "/escalations",
    "failures": "/failures",
    "runs": "/runs",
    "agents": "/agents",
    "audit": "/audit",
    "timelines": "/timelines",
}


def rows_of(path: str, **query: str) -> list[list[str]]:
    answer = signed_in(Role.ADMIN).get(path, {"format": "csv", **query})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(StringIO(answer.content.decode())))


@pytest.mark.parametrize(("name", "path"), LISTS.items())
def test_every_list_is_a_file_that_says_what_it_is_of(name: str, path: str) -> None:
    busy()
    held(signed_in())
    columns, *rows = rows_of(path)
    assert columns[-1] == f"http://testserver{path}"
    assert rows
    assert {len(row) for row in rows} == {len(columns) - 1}
    answer = signed_in(Role.ADMIN).get(path, {"format": "csv"})
    assert answer.headers["Content-Disposition"].startswith(f'attachment; filename="{name}')
    page = signed_in(Role.ADMIN).get(path).content.decode()
    is_long = f'href="/exports/new?of={path[1:]}"' in page  # its dialog is looked at in `test_long_exports.py`
    assert is_long == (name in ("audit", "escalations", "runs"))
    assert is_long or f'{path}?format=csv"' in page.replace('href="?', f'href="{path}?')


@pytest.mark.parametrize(("name", "path"), LISTS.items())
def test_a_list_is_json_with_the_rows_of_its_csv(name: str, path: str) -> None:
    busy()
    held(signed_in())
    columns, *rows = rows_of(path)
    client = signed_in(Role.ADMIN)
    document = client.get(path, {"format": "json"}).json()
    assert document["address"] == f"http://testserver{path}"
    assert [list(one) for one in document["rows"]] == [columns[:-1]] * len(rows)
    lines = client.get(path, {"format": "ndjson"}).content.decode().splitlines()
    assert [json.loads(line) for line in lines] == document["rows"]
    words = {"None": "", "True": "yes", "False": "no"}
    told = [words.get(str(value), str(value)) for value in document["rows"][0].values()]
    assert [text.removeprefix("'") for text in rows[0]] == told


def test_a_file_has_what_its_page_shows() -> None:
    troubled_fleet()
    columns, *rows = rows_of("/breakers", show="open")
    assert [row[0] for row in rows] == ["search_web"]
    assert columns[-1] == "http://testserver/breakers?show=open"
    assert rows[0][columns.index("worst state")] == "open"
    assert rows[0][columns.index("since")] == "2026-11-21T14:25:58.000Z"


@pytest.mark.parametrize("said", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1+1", "＠SUM(1)"])
def test_a_spreadsheet_runs_nothing_of_it(said: str) -> None:
    Story().tell(failed(Category.TIMEOUT, "crm.update", message=said), at=5).store()
    columns, row = rows_of("/failures")
    assert row[columns.index("message")].startswith("'")


HIDDEN = ["a;=1+1", "a; +1", "a\t=1", "a\t @SUM(1)", 'a";"=1', "a;＝1", "=1;=1", "a;\u200b-1"]


@pytest.mark.parametrize("said", HIDDEN)
@pytest.mark.parametrize("path", ["/failures?format=csv", "/degradations.csv"])
def test_cell_is_no_formula_whatever_separates_cells(path: str, said: str) -> None:
    reduced = DegradationStarted(operation="crm", kind="fallback", reason=said, from_name="crm", to_name="cache")
    Story().tell(failed(Category.TIMEOUT, "crm", message=said), reduced, at=5).store()
    content = signed_in(Role.ADMIN).get(path).content.decode()
    assert "1" in content
    for separator in ",;\t":
        cells = [cell for row in csv.reader(StringIO(content), delimiter=separator) for cell in row]
        assert [cell for cell in cells if cell.strip(" \t\u200b").startswith(tuple("=+-@＝"))] == []


def test_every_text_of_a_file_is_quoted() -> None:
    Story().tell(failed(Category.TIMEOUT, "crm"), at=5).store()
    content = signed_in().get("/failures?format=csv").content.decode()
    # A reader that takes whatever is not quoted for a number stumbles over a text that is not.
    columns, row = csv.reader(StringIO(content), quoting=csv.QUOTE_NONNUMERIC)
    assert float(row[columns.index("failures")]) == 1


@pytest.mark.parametrize("page", ["amplification", "degradations", "report"])
def test_no_file_is_kept_by_anybody_between(page: str) -> None:
    answer = signed_in().get(f"/{page}.csv")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private, no-store")
    assert answer.headers["Content-Disposition"].startswith(f'attachment; filename="{page}-')


def test_numbers_stay_numbers_and_the_unknown_stays_empty() -> None:
    Story().tell(failed(Category.TIMEOUT, "crm.update"), at=5).store()
    columns, row = rows_of("/failures")
    assert (row[columns.index("failures")], row[columns.index("status")]) == ("1", "")


def test_who_may_not_read_the_log_gets_no_file_of_it() -> None:
    troubled_fleet()
    assert signed_in(None).get("/audit?format=csv").status_code == 403


def test_timelines_are_markdown_and_nothing_in_it_is_more_than_text() -> None:
    troubled_fleet(name=f"<b>[x](http://evil) {HOSTILE}")
    answer = signed_in().get("/timelines?format=md&range=15m")
    said = answer.content.decode()
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert said.startswith("# Timelines of dev, ")
    assert "<http://testserver/timelines?range=15m>" in said
    assert "## Breakers" in said
    assert "| --- |" in said
    assert "<b>" not in said
    assert "<img" not in said
    assert "[x](http" not in said


@pytest.mark.parametrize("number", ["9", "-1", "moon"])
def test_a_table_that_is_not_there_is_not_found(number: str) -> None:
    troubled_fleet()
    assert signed_in().get(f"/timelines?format=csv&table={number}").status_code == 404


def test_a_file_has_the_columns_that_are_asked_for_in_their_own_order() -> None:
    troubled_fleet()
    columns, *rows = rows_of("/breakers", only="since")
    assert columns == ["since", "http://testserver/breakers"]
    assert {len(row) for row in rows} == {1}
    assert rows_of("/breakers", only="moon")[0] == rows_of("/breakers")[0]


def test_a_file_of_runs_goes_on_behind_the_page() -> None:
    for number in range(230):
        Story().tell(failed(Category.TIMEOUT, "crm.update"), at=2 + number % 50, run=f"run-{number}").store()
    _, *rows = rows_of("/runs")
    assert sorted(row[0] for row in rows) == sorted(f"run-{number}" for number in range(230))
