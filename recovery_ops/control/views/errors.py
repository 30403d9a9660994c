"""What stands on the page when the server fails: a database that is away is not a fault in the code."""

from __future__ import annotations

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

RETRY_AFTER_S = 5


def failed(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is away, else 500. Nothing here may ask the database again."""
    is_away = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    status = 503 if is_away else 500
    answer = HttpResponse(render_to_string(f"{status}.html", {"request": request}), status=status)
    answer["Cache-Control"] = "no-store"
    if is_away:
        answer["Retry-After"] = str(RETRY_AFTER_S)
    return answer
