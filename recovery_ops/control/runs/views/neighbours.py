"""The runs before and after one in the list that its page was opened from."""

from __future__ import annotations

from copy import copy
from datetime import datetime

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from events.pages.window import window_in
from recovery_ops.control.core.list_neighbours import NOBODY, Neighbours, list_of, neighbours_of
from recovery_ops.control.core.pagination import place_asked
from recovery_ops.control.runs.export import PLACE, run_list_of


def beside_run(request: HttpRequest, environment: str, run: str, now: datetime) -> Neighbours:
    """Those on the same page of the list; nobody where the address names none."""
    query = list_of(request)
    if not query:
        return NOBODY
    asked = copy(request)
    asked.GET = QueryDict(query)
    window = window_in(asked, environment, now=now)
    listed = run_list_of(environment, asked.GET, start=window.start, end=window.end, now=now)
    after = place_asked(asked, PLACE)
    names = listed.names(None if after is None else (int(after[0]), int(after[1])))
    return neighbours_of(request, run, names, lambda name: reverse("run", args=[name]))
