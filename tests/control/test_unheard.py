"""A word of an address that means nothing on its page is said, and none that a page itself writes is."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs

import pytest

from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import PAGES, signed_in, troubled_fleet

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
NOTED = "data-unheard="
OWN = re.compile(r'(?:href|data-copy-link)="((?:/[^"]*)?\?[^"]+)"')


def test_a_word_that_nobody_knows_is_named() -> None:
    troubled_fleet()
    assert Shown(signed_in().get("/breakers?shwo=open&show=open")).values("unheard") == ["shwo=open"]
    assert Shown(signed_in().get("/breakers?show=open&range=1h")).values("unheard") == []
    assert "<img" not in signed_in().get("/breakers?%3Cimg%20src=x").content.decode()


@pytest.mark.parametrize(
    ("address", "ignored"),
    [
        ("/breakers?show=opne", "show=opne"),
        ("/breakers?sort=-nothing", "sort=-nothing"),
        ("/failures?tab=nowhere", "tab=nowhere"),
        ("/agents?silent_s=soon", "silent_s=soon"),
        ("/capacity?state=quiet", "state=quiet"),
        ("/runs?show=bad", "show=bad"),
        ("/escalations?severity=awful", "severity=awful"),
        ("/escalations?tab=theirs", "tab=theirs"),
        ("/timelines?compare=never", "compare=never"),
        ("/breakers?utm_source=mail&next=/runs", ""),
    ],
)
def test_a_value_that_asks_for_nothing_is_named_and_what_counts_visits_is_not(address: str, ignored: str) -> None:
    troubled_fleet()
    answer = signed_in().get(address)
    assert answer.status_code == 200
    assert Shown(answer).values("unheard") == ([ignored] if ignored else [])


@pytest.mark.full
def test_no_link_of_a_page_says_what_its_page_does_not_know() -> None:
    troubled_fleet()
    client = signed_in(Role.ADMIN)
    kinds: dict[tuple[str, frozenset[str]], str] = {}
    for path in PAGES.values():
        here = path.partition("?")[0]
        links = [unescape(one) for one in OWN.findall(client.get(path).content.decode())]
        for one in (path, *(here + link if link.startswith("?") else link for link in links)):
            place, _, query = one.partition("?")
            names = frozenset(parse_qs(query, keep_blank_values=True))
            if "format" not in names:
                kinds.setdefault((place, names), one)
    assert len(kinds) > 60
    for one in kinds.values():
        answer = client.get(one)
        if answer.status_code == 200 and "text/html" in answer.headers["Content-Type"]:
            assert NOTED not in answer.content.decode(), one
