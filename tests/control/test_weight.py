"""How heavy the console is: what a browser loads for a page without charts, and that nothing comes from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import brotli  # type: ignore[import-untyped]  # it ships no types
import pytest
from django.contrib.staticfiles import finders

from recovery_ops.rules.roles import Role
from tests.support.pages import signed_in, troubled_fleet

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

STYLES = ("tokens.css", "app.css")
LISTS = ("/", "/breakers", "/escalations", "/failures", "/runs", "/agents", "/policies", "/audit")
KB = 1000


def scripts_of(page: bytes) -> list[str]:
    """The scripts that a page loads, by their names; the last is the worker that the live one starts."""
    named = re.findall(r'<script[^>]* src="([^"]+)"', page.decode())
    return [*(one.rpartition("/static/")[2] for one in named), "js/live-stream.js"]


def packed(content: bytes) -> int:
    """Its size as production serves it."""
    return len(brotli.compress(content))


def weight_of(names: Iterable[str]) -> int:
    """What these files are together, each served by itself."""
    return sum(packed(Path(str(finders.find(name))).read_bytes()) for name in names)


def test_styles_and_core_scripts_are_light() -> None:
    """Core is what every list loads."""
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    core = set.intersection(*(set(scripts_of(client.get(path).content)) for path in LISTS))
    assert "js/console.js" in core
    assert weight_of(STYLES) <= 18 * KB
    assert weight_of(core) <= 22 * KB


@pytest.mark.parametrize("path", LISTS)
def test_a_first_visit_is_light(path: str) -> None:
    troubled_fleet(40)
    page = signed_in(Role.EDITOR).get(path).content
    assert packed(page) <= 50 * KB
    assert packed(page) + weight_of((*STYLES, *scripts_of(page))) <= 90 * KB


@pytest.mark.parametrize("path", ["/", "/breakers/search_web", "/timelines", "/policies/operations/search_web"])
def test_nothing_comes_from_elsewhere_and_nothing_is_inline(path: str) -> None:
    troubled_fleet()
    page = signed_in(Role.EDITOR).get(path).content.decode()
    addresses = re.findall(r'(?:src|href|action)="([^"]+)"', page)
    assert not [one for one in addresses if one.startswith(("http:", "https:", "//", "javascript:", "data:"))]
    assert not re.search(r"<script(?![^>]* src=)", page)
    assert not re.search(r'\s(?:style|on[a-z]+)="', page)
    assert not re.findall(r"<style(?![^>]*nonce=)", page)
