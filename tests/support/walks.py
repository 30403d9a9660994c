"""Walks through the console as a reader with a lot of time: every page, and what pages link, file by file."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urljoin

from django.http import QueryDict
from django.test import Client
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve

FORMATS = ("csv", "json", "ndjson", "md")
"""What files are written in. SVG and PNG are drawn in the browser from what a page says, which is looked at anyway."""
_LEFT_OUT = re.compile(r"^/(static|sign-out|settings/you|docs|healthz|readyz)")
_LINK = re.compile(r'\b(?:href|src|action|data-href|data-[a-z-]+-url)="([/?][^"]*)"')


class Opened(NamedTuple):
    """One address that a walk opened. `linked_from`: the page that links it, empty where no page does."""

    address: str
    answer: Any
    linked_from: str


def opened(client: Client, begin: Iterable[str], *, each: int, each_query: int | None = None) -> Iterator[Opened]:
    """These addresses, and what the pages there link, up to `each` of a route and of each of its files: the answers.

    A route is one view, whatever object it is asked about. Of an object that has a page, the API's document as well.
    `each_query`: how many of a file, and of each tab of a list: addresses of these differ in their query alone.
    """
    waiting, seen = deque((one, "") for one in begin), set[str]()
    first = {address for address, _ in waiting}
    counted: Counter[tuple[str, str]] = Counter()
    while waiting:
        address, linked_from = waiting.popleft()
        if address in seen or _LEFT_OUT.match(address):
            continue
        seen.add(address)
        route, part = route_of(address.partition("?")[0]), file_of(address)
        is_of_object = "<" in route and not part
        kind = (route, part if is_of_object else part or tab_of(address))
        most = each if each_query is None or is_of_object else each_query
        if counted[kind] >= most and address not in first:
            continue
        counted[kind] += 1
        answer = client.get(address)
        yield Opened(address, answer, linked_from)
        if "text/html" not in answer.headers.get("Content-Type", ""):
            continue
        text = answer.content.decode(errors="replace")
        links = [urljoin(address, unescape(one)).partition("#")[0] for one in dict.fromkeys(_LINK.findall(text))]
        links = [one for one in dict.fromkeys(links) if one.startswith("/")]
        # One of each kind of link before the second of any; of each file all its formats, linked or not.
        waiting.extend((one, address) for one in links if one not in seen)
        files = [one for one in links if "format=csv" in one]
        waiting.extend((one.replace("format=csv", f"format={other}"), "") for one in files for other in FORMATS)
        waiting.append((f"/api/v1{address.partition('?')[0]}", ""))


def file_of(address: str) -> str:
    """Which file of a page this is: its format and the number of its table; empty for the page itself."""
    asked = QueryDict(address.partition("?")[2])
    return " ".join(part for part in (asked.get("format"), asked.get("table") if "format" in asked else None) if part)


def tab_of(address: str) -> str:
    """Which tab and view of a page this is; empty for the first one."""
    asked = QueryDict(address.partition("?")[2])
    return " ".join(f"{name}={asked[name]}" for name in ("tab", "view") if name in asked)


def route_of(path: str) -> str:
    """Which view answers there; the path itself where none of Django's does."""
    try:
        return str(resolve(path).route)
    except Resolver404:
        return path


def of_api() -> list[str]:
    """Every list that the API hands out."""
    return [one for one in _without_objects() if one.startswith("/api/v1/") and not one.endswith("desired")]


def of_pages() -> list[str]:
    """Every page whose address names no object, linked or not."""
    return [one for one in _without_objects() if not one.startswith(("/api/", "/v1/"))]


def _without_objects() -> list[str]:

    def walk(patterns: list[Any], before: str) -> Iterator[str]:
        for one in patterns:
            here = before + str(one.pattern)
            if isinstance(one, URLResolver):
                yield from walk(one.url_patterns, here)
            elif isinstance(one, URLPattern) and not one.pattern.converters:
                yield "/" + here

    return list(walk(get_resolver().url_patterns, ""))
