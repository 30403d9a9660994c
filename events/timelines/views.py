"""The timelines: everything that happened in one window over one axis, as a figure, as tables and as one sentence.

Who may look at an environment is not for this app to know, nor what people want: `recovery_ops.control` mounts these
views behind its door, hands them the `environment`, and says what to draw beside the facts (`marks_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from events import queries
from events.charts.stills import still_of
from events.pages.narrowing import one_of
from events.pages.rendering import has_drawn, render_page, with_tag
from events.pages.table_files import MARKDOWN, is_asked, markdown_answer, rows_answer
from events.pages.window import PRESETS, Window, window_in
from events.queries.fleet import present_spans, reporting_spans
from events.queries.sums import Sums, sums_earlier
from events.rows import Fleet
from events.timelines import Chart, Choice, Earlier, Mark, Question, timeline
from events.timelines.choosing import BANDS, BY_NAME, EVERYTHING
from events.timelines.counts import By
from events.timelines.cursor import as_json
from events.timelines.narrowing import EVERY, Narrow
from events.timelines.picking import Cursor, Picker
from events.timelines.zones import as_read
from events.wording import count_text

MarksOf = Callable[[str, Window, str, Narrow], Sequence[Mark]]
"""What was done in an environment in a window, with all breakers or with one; of a service, with a tag."""


QuestionsOf = Callable[[str, Window, str, Narrow], Sequence[Question]]
"""What was put to people in an environment in a window, about all breakers or about one; by a service."""


def no_questions(environment: str, window: Window, breaker: str, narrow: Narrow) -> Sequence[Question]:
    """For a store of facts that stands alone."""
    del environment, window, breaker, narrow
    return ()


def no_marks(environment: str, window: Window, breaker: str, narrow: Narrow) -> Sequence[Mark]:
    """For a store of facts that stands alone."""
    del environment, window, breaker, narrow
    return ()


COMPARED = {"before": "just before", "day": "a day earlier", "week": "a week earlier"}
"""With what a range is compared, and how that is called."""
_SHIFTS = {"day": timedelta(days=1), "week": timedelta(weeks=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an address asks to be drawn: one breaker or all, of which calls, which lanes, compared with what."""

    breaker: str = ""
    narrow: Narrow = EVERY
    choice: Choice = EVERYTHING
    compare: str = ""

    @staticmethod
    def of(request: HttpRequest) -> Asked:
        """As the address says; what it says wrongly is not said."""
        given = request.GET
        return Asked(
            breaker=given.get("breaker", ""),
            narrow=Narrow.of(given),
            choice=Choice.of(
                given.getlist("band"),
                given.getlist("lane"),
                given.get("match", ""),
                pins=given.getlist("pin"),
                order=given.get("order", ""),
                sort=one_of(given, "sort", (BY_NAME,)),
            ),
            compare=one_of(given, "compare", COMPARED),
        )

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What an address, or a form, has to say to ask for the same."""
        choice = self.choice
        order = ",".join(choice.order)
        said = [("breaker", self.breaker), ("compare", self.compare), ("match", choice.match), ("order", order)]
        said.append(("sort", BY_NAME if choice.is_by_name else ""))
        return [
            *((name, value) for name, value in said if value),
            *self.narrow.said.items(),
            *(("band", band) for band in BANDS if band in choice.bands),
            *(("lane", f"{band}:{name}") for band, name in sorted(choice.lanes)),
            *(("pin", f"{band}:{name}") for band, name in sorted(choice.pins)),
        ]

    @property
    def words(self) -> str:
        """What was chosen, beside the form that is folded away."""
        choice = self.choice
        bands = [word for band, word in BANDS.items() if band in choice.bands]
        parts = [
            ", ".join(f"{name} {value}" for name, value in self.narrow.said.items()),
            ", ".join(bands) if bands else "all bands",
            count_text(len(choice.lanes), "chosen lane") if choice.lanes else "",
            f"lanes with “{choice.match}”" if choice.match else "",
            f"{count_text(len(choice.pins), 'lane')} pinned" if choice.pins else "",
            "in an order of their own" if choice.order else "",
            "breakers by name" if choice.is_by_name else "",
            f"compared with {COMPARED[self.compare]}" if self.compare else "",
        ]
        return "; ".join(part for part in parts if part)

    def address(self, window: Window) -> str:
        """The part of an address that asks for the same in the same window."""
        parts = [part for part in (urlencode(self.pairs), window.query) if part]
        return f"?{'&'.join(parts)}" if parts else ""


def timelines(
    request: HttpRequest, *, environment: str, marks_of: MarksOf = no_marks, questions_of: QuestionsOf = no_questions
) -> HttpResponse:
    """The page, its figure as rows that plotly replaces when it is there; `view=table` unfolds the tables."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    asked = Asked.of(request)
    story = _Story.read(environment, window, asked, now=now)
    marks = marks_of(environment, window, asked.breaker, asked.narrow)
    chart = story.chart(marks, questions_of(environment, window, asked.breaker, asked.narrow))
    if is_asked(request) or is_asked(request, MARKDOWN):
        return _file(request, environment, chart, window)
    breakers, asking = chart.band("breakers"), chart.band("escalations")
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "asked": asked,
        "breaker": asked.breaker,
        "chart": chart,
        "still": None if has_drawn(request, "figure") else still_of(chart),
        "sentence": breakers.caption if breakers is not None else " ".join(chart.captions),
        "breakers": sorted(story.fleet),
        "filters": story.filters(marks),
        "picker": Picker.of(asked.choice, story.lanes()),
        "compared": COMPARED,
        "figure_query": asked.address(window),
        "link_query": urlencode(asked.pairs),
        "times_of": "all shown breakers together" if breakers is not None and len(breakers.lanes) > 1 else "",
        "cursor": Cursor.of(request.GET.get("at", ""), chart),
        "has_marks": chart.band("changes") is not None,
        "has_questions": bool(asking and asking.lanes),
        "is_table": request.GET.get("view") == "table",
    }
    return render_page(request, "events/timelines", context)


def _file(request: HttpRequest, environment: str, chart: Chart, window: Window) -> HttpResponse:
    """Everything as Markdown, or the table of `table=` (a number; without one, what the breakers did) as CSV."""
    name = f"timelines {environment} {window.start:%Y%m%d %H%M} {window.end:%H%M}"
    if is_asked(request, MARKDOWN):
        title = f"Timelines of {environment}, {window.words}"
        return markdown_answer(request, name, title, chart.captions, chart.tables)
    breakers = chart.band("breakers")
    usual = 0 if breakers is None else next(at for at, one in enumerate(chart.tables) if one is breakers.table)
    number = request.GET.get("table", str(usual))
    if number not in {str(place) for place in range(len(chart.tables))}:
        raise Http404(f"There are {len(chart.tables)} tables, from 0 on.")
    table = chart.tables[int(number)]
    return rows_answer(request, f"{name} {table.title}", table.columns, table.rows)


def figure(
    request: HttpRequest, *, environment: str, marks_of: MarksOf = no_marks, questions_of: QuestionsOf = no_questions
) -> HttpResponse:
    """The same as JSON for plotly: `figure`, `caption`, `legend`, `height_px`, and what lanes say under a cursor."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    asked = Asked.of(request)
    about = (environment, window, asked.breaker, asked.narrow)
    chart = _Story.read(environment, window, asked, now=now).chart(marks_of(*about), questions_of(*about))
    return figure_answer(request, chart, {"cursor": as_json(chart)})


def figure_answer(request: HttpRequest, chart: Chart, more: Mapping[str, Any] | None = None) -> HttpResponse:
    """A chart as JSON on the reader's clock, and `more` beside it, or 304 for whoever has it."""
    body = orjson.dumps(
        {
            "figure": as_read(chart.figure, chart.start, chart.end),
            "caption": chart.caption,
            "legend": chart.legend,
            "height_px": chart.height_px,
            **(more or {}),
        }
    )
    answer = HttpResponse(body, content_type="application/json")
    answer["Cache-Control"] = "private, no-cache"
    return with_tag(request, answer)


def chart_of(environment: str, window: Window, *, breaker: str, now: datetime) -> Chart:
    """Everything in the window, or only what concerns one breaker. At most eleven queries."""
    return _Story.read(environment, window, Asked(breaker=breaker), now=now).chart(None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Story:
    """What was found in a window, before anybody chose among it."""

    asked: Asked
    window: Window
    fleet: Fleet
    sums: Sums
    named: Collection[str]
    """With a provider or a model: who called it."""
    reduced: Sequence[queries.DegradationRow]
    earlier: Sums | None

    @staticmethod
    def read(environment: str, window: Window, asked: Asked, *, now: datetime) -> _Story:
        """At most eleven queries, one more to compare; of each, another two of some calls (`queries.sums_per_bin`)."""
        start, end, breaker = window.start, window.end, asked.breaker or None
        narrow = asked.narrow
        fleet = queries.fleet_lanes(environment, start=start, end=end, breaker=breaker, now=now, service=narrow.service)
        shift = _SHIFTS.get(asked.compare, window.length) if asked.compare else timedelta()
        reporting = (
            reporting_spans(environment, start=start - shift, end=end)
            if shift
            else present_spans(fleet.presences, start=fleet.start, end=fleet.end)
        )
        of_calls: dict[str, Any] = {"breaker": breaker, "reporting": reporting, "of_calls": narrow.of_calls}
        sums = queries.sums_per_bin(environment, start=start, end=end, **of_calls)
        named = sums.named() if narrow.is_of_backend else ()
        for name in [one for one in fleet if not narrow.concerns(one, named)]:
            del fleet[name]
        return _Story(
            asked=asked,
            window=window,
            fleet=fleet,
            sums=sums,
            named=named,
            reduced=[
                row
                for row in queries.degradations(environment, start=start, end=end)
                if asked.breaker in ("", row.operation, row.from_name)
                and narrow.service in ("", row.service)
                and narrow.concerns(row.operation or row.from_name, named)
            ],
            earlier=sums_earlier(environment, sums, shift, **of_calls) if shift else None,
        )

    def filters(self, marks: Iterable[Mark]) -> list[tuple[str, str, list[str]]]:
        """What the figure may be narrowed by: a name in addresses, what was asked for, what there is in the window."""
        narrow = self.asked.narrow
        there = {
            "provider": self.sums.backends("provider"),
            "model": self.sums.backends("model"),
            "service": set(self.fleet.services),
            "tag": {tag for mark in marks for tag in mark.tags},
        }
        asked = narrow.said
        return [
            (name, asked.get(name, ""), sorted(options | ({asked[name]} if name in asked else set())))
            for name, options in there.items()
        ]

    def lanes(self) -> list[tuple[str, Iterable[str]]]:
        """The lanes that can be picked, by band."""
        return [
            ("capacity", self.sums.capacity().series),
            ("breakers", self.fleet),
            ("fallbacks", {row.operation for row in self.reduced}),
        ]

    @property
    def untold(self) -> dict[str, str]:
        """The bands of which a provider or a model leaves nothing that is known, each with the words why."""
        narrow = self.asked.narrow
        found = {}
        if narrow.model:
            found["rejections"] = "Calls not made are not told by model."
            if not self.sums.capacity().series:
                found["capacity"] = "No failure named this model; calls that went well are not told by model."
        if narrow.is_of_backend and not self.named:
            found.setdefault("rejections", "Calls not made are not known: no breaker is known to stand before it.")
            found["breakers"] = "No call named it in this range or within a day, so its breakers are not known."
        return found

    def chart(self, marks: Sequence[Mark] | None, questions: Sequence[Question] | None) -> Chart:
        by: By = "category" if self.asked.breaker else "family"
        began = self.window.began
        sums = self.sums if self.earlier is None else self.sums.in_minutes()  # as wide as the bins compared with
        then = None
        if self.earlier is not None:
            words = COMPARED[self.asked.compare]
            then = (
                Earlier(bins=self.earlier.failures(by).since(began), words=words),
                Earlier(bins=self.earlier.rejections().since(began), words=words),
                Earlier(bins=self.asked.choice.capacity(self.earlier.capacity().since(began)), words=words),
            )
        if questions is not None:
            questions = [one for one in questions if self.asked.narrow.concerns(one.breaker, self.named)]
        return timeline(
            self.fleet,
            capacity=sums.capacity(),
            failures=sums.failures(by),
            rejections=self.sums.rejections(),
            degradations=self.reduced,
            by=by,
            began=began,
            choice=self.asked.choice,
            marks=marks,
            questions=questions,
            earlier=then,
            untold=self.untold,
            notes=self.asked.narrow.notes,
            page_of=lambda breaker: reverse("breaker", args=[breaker]) + self.window.link,
        )
