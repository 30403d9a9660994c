"""Lists whose columns people choose and sort by: the address says which, and a place in a list is one of its order."""

from __future__ import annotations

import re
from html import unescape

import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.pages import held, signed_in, text_of, troubled_fleet
from tests.support.recoveries import busy
from tests.support.stories import Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

LISTS = {
    "/agents": ("version", "seen"),
    "/failures": ("count", "last"),
    "/runs": ("status", "took"),
    "/escalations": ("severity", "owner"),
    "/audit": ("who", "revert"),
    "/policies": ("calls", "attempts"),
}


def placed(page: str, how: str) -> set[str]:
    """The places of the columns that the page's own rules draw so, in bodies and heads alike."""
    rules = re.findall(r"table\[data-hide\] td:nth-child\((\d+)\), .* th:nth-child\((\d+)\) \{ ([^}]*) \}", page)
    assert all(body == head for body, head, _ in rules)
    return {place for place, _, drawn in rules if how in drawn}


def hidden_in(page: str) -> set[str]:
    [places] = re.findall(r'<table data-queue[^>]*? data-hide="([^"]*)"', page)
    assert set(places.split()) == placed(page, "display: none")
    return set(places.split())


def test_a_page_is_painted_once_its_last_element_is_read() -> None:
    """A name that no element has would hold back nothing, and nobody would see why rows shift."""
    page = signed_in().get("/runs").content.decode()
    [awaited] = re.findall(r'<link rel="expect" href="#([^"]+)" blocking="render">', page)
    assert page.count(f'id="{awaited}"') == 1
    assert page.index(f'id="{awaited}"') > page.index("</main>")


def test_a_page_without_columns_has_no_rules_for_any() -> None:
    assert "nth-child" not in signed_in().get("/degradations").content.decode()


@pytest.mark.parametrize("path", LISTS)
def test_columns_are_chosen_on_every_list_and_the_form_shows_which(path: str) -> None:
    busy()
    held(signed_in())
    client = signed_in(Role.ADMIN)
    usual = client.get(path).content.decode()
    chosen = client.get(path, {"column": LISTS[path]}).content.decode()
    checked = re.findall(r'name="column" value="([^"]+)" checked', chosen)
    assert checked == list(LISTS[path])
    assert hidden_in(usual) < hidden_in(chosen) | hidden_in(usual)
    assert hidden_in(usual) != hidden_in(chosen)
    heads = re.findall(r"<thead><tr>(.*?)</tr>", usual, re.DOTALL)[-1].count("<th")
    cells = re.findall(r'<tr[^>]* data-key="[^"]*"[^>]*>(.*?)</tr>', usual, re.DOTALL)
    assert cells
    assert {row.count("<td") + row.count("<th") for row in cells if "<th" in row} <= {heads}


def test_the_fleet_is_in_the_order_of_a_column() -> None:
    troubled_fleet()
    client = signed_in()
    names = re.compile(r'data-key="agent-\d+">(?:<td>(?:(?!</td>).)*</td>)?<th scope="row"><a [^>]*><code>([^<]+)')
    down = names.findall(client.get("/agents?sort=-instance").content.decode())
    assert down == sorted(down, reverse=True)
    assert names.findall(client.get("/agents?sort=instance").content.decode()) == down[::-1]
    assert len(down) > 1


def test_causes_in_an_order_of_ones_own_are_walked_page_by_page() -> None:
    for number in range(60):
        Story().tell(
            failed(Category.TIMEOUT, f"crm.{number:02d}", fingerprint=f"f{number:02d}"), at=2 + number % 40
        ).store()
    client = signed_in()
    seen: list[str] = []
    address = "/failures?sort=first"
    while address:
        page = client.get(address).content.decode()
        seen += re.findall(r'data-key="failure-([^"]+)"', page)
        further = re.findall(r'href="([^"]+)">Next', page)
        address = f"/failures{unescape(further[0])}" if further else ""
    assert len(seen) == len(set(seen)) == 60


def test_failures_are_narrowed_by_version_attempt_and_whether_they_may_be_tried_again() -> None:
    Story().tell(failed(Category.TIMEOUT, "crm.update", fingerprint="first"), at=5).store()
    Story().tell(failed(Category.TIMEOUT, "crm.update", attempt=4, retryable=False, fingerprint="late"), at=6).store()
    facets = dict(signed_in().get("/failures").context["facets"])
    assert {one.word: one.count for one in facets["Attempt"]} == {"first": 1, "third or later": 1}
    assert sorted((one.count, "=no" in one.href) for one in facets["Recoverable"]) == [(1, False), (1, True)]
    only = signed_in().get("/failures?attempt=third+or+later").content.decode()
    assert re.findall(r'data-key="failure-([^"]+)"', only) == ["late"]
    final = signed_in().get("/failures?again=no").content.decode()
    assert re.findall(r'data-key="failure-([^"]+)"', final) == ["late"]


def test_a_column_is_made_wider_and_narrower_by_a_link_and_the_address_keeps_it() -> None:
    busy()
    client = signed_in(Role.ADMIN)

    def after(page: str, word: str) -> str:
        [href] = re.findall(rf'<a href="([^"]+)#columns-form" aria-label="{word}: Status"', page)
        return str(client.get(unescape(href)).content.decode())

    def sizes(page: str) -> tuple[set[str], set[str]]:
        return placed(page, "max-width: 88px"), placed(page, "min-width: 320px")

    usual = client.get("/runs?sort=took&column=status&column=took").content.decode()
    assert sizes(usual) == (set(), set())
    wide = after(usual, "Wider")
    assert sizes(wide) == (set(), {"3"})
    assert 'aria-label="Wider: Status"' not in wide
    assert re.findall(r'name="column" value="([^"]+)" checked', wide) == ["status", "took"]
    assert '<input type="hidden" name="wide" value="status">' in wide, "who chooses columns keeps the widths"
    assert sizes(after(wide, "Narrower")) == (set(), set())
    assert sizes(after(usual, "Narrower")) == ({"3"}, set())
    assert "wide" not in text_of(client.get("/runs?wide=moon&narrow=moon")), "a column that there is not has no width"


@pytest.mark.parametrize("path", LISTS)
def test_every_list_with_columns_has_widths(path: str) -> None:
    busy()
    held(signed_in())
    page = signed_in(Role.ADMIN).get(path, {"wide": LISTS[path][0]}).content.decode()
    assert len(placed(page, "min-width: 320px")) == 1
