"""Renders a page whole, or only the living part of it for the script that asks again; what did not change is a 304."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers

FRAGMENT_HEADER = "X-Fragment"
DRAWN_HEADER = "X-Drawn"
DIALOG = "dialog"
"""The fragment that a dialog over the page asks for: a form alone."""

_TICKING = re.compile(rb'(<time [^>]*data-tick="[^"]*"[^>]*>)[^<]*(?=</time>)')
_MASKED = re.compile(rb'(name="csrfmiddlewaretoken" value=")[^"]*')


def fragment_of(request: HttpRequest) -> str:
    """The id of the element that a refresh asks for; empty for a whole page."""
    return request.headers.get(FRAGMENT_HEADER, "")


def has_drawn(request: HttpRequest, figure: str) -> bool:
    """Whether the asker's script has drawn this figure (its id), so that a refresh need not draw it again."""
    return figure in request.headers.get(DRAWN_HEADER, "").split()


def render_page(
    request: HttpRequest, name: str, context: Mapping[str, Any], *, part: str = "", status: int = 200
) -> HttpResponse:
    """Answer `<name>.html`, or `_<name>.html`, which that page includes, when the request asks for a fragment.

    `name` may have a folder (`dashboard/overview`); `part` is the fragment's template where it is called otherwise.
    """
    if not fragment_of(request):
        return _private(HttpResponse(render_to_string(f"{name}.html", dict(context), request), status=status))
    folder, _, page = name.rpartition("/")
    template = part or f"{folder}/_{page}.html".removeprefix("/")
    body = render_to_string(template, dict(context), request)
    if "window" in context:
        body += render_to_string("_range.html", {"window": context["window"]})
    answer = _private(HttpResponse(body, status=status))
    return answer if fragment_of(request) == DIALOG else with_tag(request, answer)


def with_tag(request: HttpRequest, answer: HttpResponse) -> HttpResponse:
    """Give the answer an ETag, or turn it into a 304 when the asker has it already.

    A time that merely ticked on is not a change, nor is a form's token, which is masked anew each time and lasts.
    """
    lasting = _MASKED.sub(rb"\1", _TICKING.sub(rb"\1", answer.content))
    tag = f'"{hashlib.blake2b(lasting, digest_size=12).hexdigest()}"'
    # Compressed on its way, an answer's tag comes back as a weak one.
    if answer.status_code == 200 and request.headers.get("If-None-Match", "").removeprefix("W/") == tag:
        answer = _private(HttpResponse(status=304))
    answer["ETag"] = tag
    return answer


def _private(answer: HttpResponse) -> HttpResponse:
    answer["Cache-Control"] = "private, no-cache"
    patch_vary_headers(answer, [FRAGMENT_HEADER, "Cookie"])
    return answer
