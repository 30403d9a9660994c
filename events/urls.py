"""The addresses of this app's pages, for whoever knows who may look at them."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse
from django.urls import URLPattern, path

from events import views

Page = Callable[..., HttpResponse]


def pages(door: Callable[[Page], Page]) -> list[URLPattern]:
    """The pages, each behind a `door` that hands it the `environment` which the person may see."""
    return [
        path("timelines", door(views.timelines), name="timelines"),
        path("timelines/figure", door(views.figure), name="timelines-figure"),
    ]
