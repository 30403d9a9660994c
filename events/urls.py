"""The addresses of this app's pages, for whoever knows who may look at them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.http import HttpResponse
from django.urls import URLPattern, path

from events.timelines import move_page, views
from events.timelines.views import MarksOf, QuestionsOf

Page = Callable[..., HttpResponse]


def pages(door: Callable[[Page], Page], marks_of: MarksOf, questions_of: QuestionsOf) -> list[URLPattern]:
    """The pages, each behind a `door` that hands it the `environment` which the person may see.

    `marks_of` says what people did and `questions_of` what they were asked: this app remembers what happened, and must
    not ask who wanted what.
    """
    return [
        path(
            "timelines", door(partial(views.timelines, marks_of=marks_of, questions_of=questions_of)), name="timelines"
        ),
        path(
            "timelines/figure",
            door(partial(views.figure, marks_of=marks_of, questions_of=questions_of)),
            name="timelines-figure",
        ),
        path("moves/<number:fact_id>", door(move_page.move), name="move"),
    ]
