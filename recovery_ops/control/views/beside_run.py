"""The runs before and after one in the list that its page was opened from."""

from __future__ import annotations

from copy import copy
from datetime import datetime

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from events.runs.asking import names_of_runs
from events.window import window_in
from recovery_ops.control.exporting.runs import asked_of, before_of
from recovery_ops.control.views.neighbours import NOBODY, Neighbours, list_of, neighbours_of


def beside_run(request: HttpRequest, environment: str, run: str, now: datetime) -> Neighbours:
    """Those on the same page of the list; nobody where the address names none, or one that takes stories to find."""
    query = list_of(request)
    if not query:
        return NOBODY
    asked = copy(request)
    asked.GET = QueryDict(query)
    window = window_in(asked, environment, now=now)
    about = asked_of(environment, asked.GET)
    before_us = before_of(asked.GET)
    listed = names_of_runs(environment, start=window.start, end=window.end, before_us=before_us, **about)
    return neighbours_of(request, run, listed, lambda name: reverse("run", args=[name]))
