"""The door in front of every page: which environment it shows, and that the person may look at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from recovery_ops.control.context import environment_of

Page = Callable[..., HttpResponse]


def seeing(view: Page) -> Page:
    """Hand the view its `environment`, or answer 403: the store of facts knows nothing of people and their roles."""

    @wraps(view)
    def through(request: HttpRequest, **words: Any) -> HttpResponse:
        return view(request, environment=environment_of(request), **words)

    return through
