"""A word of an address that means nothing on its page is said, and none that a page itself writes is."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs

import pytest

from recovery_ops.control.roles import Role
from tests.control.visiting import PAGES, signed_in, text_of, troubled_fleet

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
SAID = "which means nothing on this page"
OWN = re.compile(r'(?:href|data-copy-link)="((?:/[^"]*)?\?[^"]+)"')


def test_a_word_that_nobody_knows_is_named() -> None:
    troubled_fleet()
    said = text_of(signed_in().get("/breakers?shwo=open&show=open"))
    assert "The address says shwo , which means nothing on this page" in said
    assert SAID not in text_of(signed_in().get("/breakers?show=open&range=1h"))
    assert "<img" not in signed_in().get("/breakers?%3Cimg%20src=x").content.decode()


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
            assert SAID not in text_of(answer), one
