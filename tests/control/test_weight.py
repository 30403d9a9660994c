"""How heavy the console is: what a browser loads for a page without charts, and that nothing comes from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import brotli  # type: ignore[import-untyped]  # it ships no types
import pytest
from django.contrib.staticfiles import finders

from recovery_ops.control.roles import Role
from tests.control.visiting import signed_in, troubled_fleet

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

STYLES = ("tokens.css", "app.css")
CORE_SCRIPTS = ("js/console.js", "js/morph.js", "js/parts.js", "js/live.js", "js/live-stream.js", "js/dialog.js")
KB = 1000


def bytes_of(names: tuple[str, ...]) -> bytes:
    paths = [finders.find(name) for name in names]
    return b"".join(Path(str(path)).read_bytes() for path in paths)


def packed(content: bytes) -> int:
    """Its size as production serves it."""
    return len(brotli.compress(content))


def test_styles_and_core_scripts_are_light() -> None:
    assert packed(bytes_of(STYLES)) <= 18 * KB
    assert packed(bytes_of(CORE_SCRIPTS)) <= 22 * KB


@pytest.mark.parametrize("path", ["/", "/breakers", "/agents", "/policies", "/audit"])
def test_a_first_visit_is_light(path: str) -> None:
    troubled_fleet(40)
    page = signed_in(Role.EDITOR).get(path).content
    assert packed(page) <= 50 * KB
    assert packed(page) + packed(bytes_of(STYLES)) + packed(bytes_of(CORE_SCRIPTS)) <= 90 * KB


@pytest.mark.parametrize("path", ["/", "/breakers/search_web", "/timelines", "/policies/operations/search_web"])
def test_nothing_comes_from_elsewhere_and_nothing_is_inline(path: str) -> None:
    troubled_fleet()
    page = signed_in(Role.EDITOR).get(path).content.decode()
    addresses = re.findall(r'(?:src|href|action)="([^"]+)"', page)
    assert not [one for one in addresses if one.startswith(("http:", "https:", "//", "javascript:", "data:"))]
    assert not re.search(r"<script(?![^>]* src=)", page)
    assert not re.search(r'\s(?:style|on[a-z]+)="', page)
    assert not re.findall(r"<style(?![^>]*nonce=)", page)
