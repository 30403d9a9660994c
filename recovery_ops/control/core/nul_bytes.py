"""U+0000 is in no name and no text: PostgreSQL stores none, and would answer each question about one with an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

from recovery_ops.control.core.errors import is_of_programs, malformed, problem

SAID = "The request contains the character U+0000, which is not allowed in names and texts."
_API = "/api/"
_IN_ADDRESSES = "%00"
_IN_FORMS = re.compile(rb"%00|\0")
# An escape is preceded by no backslash, or by pairs of them.
_IN_JSON = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_HOLDS = {
    "application/x-www-form-urlencoded": _IN_FORMS,
    "multipart/form-data": _IN_FORMS,
    "application/json": _IN_JSON,
}


def refused(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: 400 for a request that holds U+0000; a cookie that does is none.

    The API says so itself, and only to whom it knows.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        request.COOKIES = {name: value for name, value in request.COOKIES.items() if "\0" not in value}
        if request.path.startswith(_API) or not is_in(request):
            return get_response(request)
        return problem(400, "invalid", SAID) if is_of_programs(request.path) else malformed(request, BadRequest(SAID))

    return answer


def is_in(request: HttpRequest) -> bool:
    """Whether the address or the body of a request holds U+0000."""
    if "\0" in request.path_info or _IN_ADDRESSES in request.META.get("QUERY_STRING", ""):
        return True
    pattern = _HOLDS.get(request.content_type or "")
    return pattern is not None and pattern.search(request.body) is not None


def fields_with(body: bytes) -> dict[str, str]:
    """What is wrong with each field of a JSON object that holds U+0000; empty for what is no such object."""
    try:
        said = json.loads(body)
        texts = {name: json.dumps(value).encode() for name, value in said.items()} if isinstance(said, dict) else {}
    except (ValueError, RecursionError):
        return {}
    return {name: "contains the character U+0000" for name, text in texts.items() if _IN_JSON.search(text)}
