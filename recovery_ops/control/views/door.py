"""The door in front of every page: which environment it shows, and that the person may look at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from recovery_ops.control.context import environment_of
from recovery_ops.control.heard import listen
from recovery_ops.control.views.answers import see_other
from recovery_ops.control.views.saved import default_address

Page = Callable[..., HttpResponse]


def seeing(view: Page) -> Page:
    """Hand the view its `environment`, or answer 403: the store of facts knows nothing of people and their roles.

    A bare address opens with the saved view that the person chose for it. From here on it is noted which words of the
    address the page asks for.
    """

    @wraps(view)
    def through(request: HttpRequest, **words: Any) -> HttpResponse:
        listen(request)
        environment = environment_of(request)
        address = default_address(request, environment)
        return see_other(address) if address else view(request, environment=environment, **words)

    return through
