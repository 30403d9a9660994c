"""The door in front of every page: which environment it shows, and that the person may look at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from recovery_ops.control.core.environment import environment_of
from recovery_ops.control.core.unknown_parameters import track_parameters

Page = Callable[..., HttpResponse]


def page(view: Page) -> Page:
    """Hand the view its `environment`, or answer 403: the store of facts knows nothing of people and their roles.

    From here on it is noted which words of the address the page asks for.
    """

    @wraps(view)
    def through(request: HttpRequest, **words: Any) -> HttpResponse:
        track_parameters(request)
        return view(request, environment=environment_of(request), **words)

    return through
