"""The machines' door to outages, reduced capabilities, attempts and the weeks: what the pages show."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from events.capacity.arranging import arrangements_of, steps_of
from events.capacity.asking import capacity_event, capacity_page, similar_before
from events.capacity.models import CapacityEvent
from events.capacity.narrowing import ASKS as NARROWED_BY
from events.capacity.narrowing import Narrow
from events.capacity.occurrences import failures_in
from events.degradations.asking import degradations_in
from events.degradations.rows import PLACE as REDUCED
from events.queries.amplification import PLACE as AMPLIFIED
from events.queries.amplification import amplification
from events.queries.spend_accounts import PLACE as SPENT
from events.queries.spend_accounts import spend_accounts
from events.recoveries.asking import recoveries, today_of
from recovery_ops.control.capacity import serializers as documents_capacity
from recovery_ops.control.capacity.services import (
    merge_events,
    note_on_event,
    set_event_apart,
    split_event,
    undo_arrangement,
)
from recovery_ops.control.capacity.status_text import customer_words
from recovery_ops.control.core.api.pagination import asked_for, next_page, page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec, read_number_parameter
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.cursors import cursor_of
from recovery_ops.control.core.numbers import is_number
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.escalations import serializers as documents_escalations
from recovery_ops.control.escalations.selectors.by_incident import open_by_event, said_of
from recovery_ops.control.escalations.selectors.report import WEEKS_MOST, month_with, report_of, week_with, weeks_before
from recovery_ops.control.escalations.services.raising import raise_about_event
from recovery_ops.rules.policy.model import parse_policy

LOOKED_BACK = timedelta(hours=24)
LONGEST = timedelta(days=31)
_PUT = ("queue", "question")
RANGE = {"from": "a moment in ISO 8601 (a day ago)", "to": "a moment in ISO 8601 (now)"}


class CapacityEvents(ApiView):
    """`GET /api/v1/capacity/events`: the outages that touch a range, newest first; `going_on=true` for those alone.

    `escalation` is the open question about one, null where there is none.
    A page may hold fewer than `limit`, or none, while `next` goes on: it is narrowed after it was read.
    """

    asks = paged() | RANGE | {"going_on": "true: only what is not over"} | NARROWED_BY

    def get(self, request: Request) -> Response:
        now = timezone.now()
        start, end = range_of(request, now)
        limit, after = asked_for(request, (int, int))
        narrow = Narrow.of(request.query_params)
        is_going_on = request.query_params.get("going_on") in ("true", "1")
        found = capacity_page(
            self.environment,
            start=start,
            end=end,
            now=now,
            after=after,
            most=limit,
            is_going_on=is_going_on,
            provider=narrow.provider,
            region=narrow.region,
        )
        asked = open_by_event(self.environment)
        answer = {
            "environment": self.environment,
            "step": steps_of(self.environment),
            "events": [
                documents_capacity.incident_document(row, now) | {"escalation": asked.get(row.id)}
                for row in found.rows
                if narrow.keeps(row, now)
            ],
            "next": next_page(request, cursor_of(found.last) if found.last else "", span=(start, end)),
        }
        return Response(answer)


class CapacityEventOf(ApiView):
    """`GET /api/v1/capacity/events/<number>`: one outage, what people arranged, and what was like it before.

    `escalations` are the newest questions of people about it, the open ones first.
    `customer_words` can be told to those who are not of the house: no name of ours is in it.
    Its ETag is the step of everything arranged, which a merge or a split gives back as If-Match.
    """

    def get(self, request: Request, number: int) -> Response:
        now, here = timezone.now(), self.environment
        row = capacity_event(here, number, now=now)
        if row is None:
            raise CommandRejected(
                "unknown_event", f"There is no capacity event CE-{number} in {here}.", status=NOT_FOUND
            )
        newest = failures_in(row, here)
        about = [row.id, *(part.id for part in row.parts)]
        questions, notes = said_of(here, row)
        return Response(
            {
                "environment": here,
                "event": documents_capacity.incident_document(row, now),
                "parts": [documents_capacity.incident_document(part, now) for part in row.parts],
                "arrangements": [documents_capacity.merge_document(one) for one in arrangements_of(here, about)],
                "escalations": [one.pk for one in questions],
                "notes": [
                    documents_capacity.incident_note_document(one.pk, one.event, at=one.when, by=one.who, text=one.said)
                    for one in notes
                ],
                "customer_words": customer_words(row, now),
                "newest_failures": [one.fact_id for one in newest],
                "derived_failures": [
                    {"fact_id": one.fact_id, **one.derived._asdict()} for one in newest if one.derived is not None
                ],
                "similar": [one.id for one in similar_before(row, here, now=now)],
            },
            headers={"ETag": f'"{steps_of(here)}"'},
        )


class MergeEvents(ApiView):
    """`POST /api/v1/capacity/events/merge`: make one outage of the events `numbers`; the lowest names the whole."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"numbers": list}, needed=("numbers",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        numbers = body["numbers"]
        if not all(is_number(one) and one > 0 for one in numbers):
            raise CommandRejected("invalid", "numbers are whole numbers.", fields={"numbers": "are whole numbers"})
        return Response(_done(self.environment, merge_events(**self.asked(request, body), numbers=numbers)))


class SplitEvent(ApiView):
    """`POST /api/v1/capacity/events/<number>/split`: what failed from `at` on is an event of its own."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"at": str}, needed=("at",))}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        at = _instant(body["at"], "at")
        return Response(_done(self.environment, split_event(**self.asked(request, body), number=number, at=at)))


class ApartEvent(ApiView):
    """`POST /api/v1/capacity/events/<number>/apart`: what the rule joined to others is an event of its own."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        return Response(_done(self.environment, set_event_apart(**self.asked(request, body), number=number)))


class NoteEvent(ApiView):
    """`POST /api/v1/capacity/events/<number>/note`: the reason is a line on its page, and kept in the audit log."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        done = note_on_event(**self.asked(request, self.body(request)), number=number)
        one = done.object
        told = documents_capacity.incident_note_document(one.pk, one.event, at=one.at, by=one.by, text=one.text)
        return Response({"note": told, "was_already": done.was_already, "dry_run": done.is_dry_run})


class EscalateEvent(ApiView):
    """`POST /api/v1/capacity/events/<number>/escalate`: ask the queue `queue` the `question` about an outage.

    While a question about it is open there is no second one: it is answered with, as `was_already`. Without a
    `severity` it is the one that the policy gives to questions.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"queue": str, "question": str, "severity": str}, needed=_PUT)}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        put = {name: body[name] for name in _PUT} | {"severity": body.get("severity", "")}
        done = raise_about_event(**self.asked(request, body), number=number, **put)
        return Response(documents_escalations.response_document(done, timezone.now()))


class UndoArrangement(ApiView):
    """`POST /api/v1/capacity/arrangements/<number>/undo`: take a merge, a split or what was set apart back."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        done = undo_arrangement(**self.asked(request, body), arrangement=number)
        return Response(_done(self.environment, done))


class DegradationsIn(ApiView):
    """`GET /api/v1/degradations`: what was reduced in a range, since when, to what, and how many runs got less."""

    asks = paged() | RANGE

    def get(self, request: Request) -> Response:
        now = timezone.now()
        start, end = range_of(request, now)
        found = degradations_in(self.environment, start=start, end=end, now=now)
        rows, further = page_of(request, found.rows, lambda row: row.place, REDUCED, span=(start, end))
        told = documents_capacity.degradations_document(replace(found, rows=tuple(rows)))
        return Response({"environment": self.environment, **told, "next": further})


class AmplificationIn(ApiView):
    """`GET /api/v1/amplification`: attempts per call by operation and source, most extra attempts first.

    Figures cover whole minutes: those in which the range starts and ends count whole.
    """

    asks = paged() | RANGE

    def get(self, request: Request) -> Response:
        start, end = range_of(request, timezone.now())
        found = amplification(self.environment, start=start, end=end)
        rows, further = page_of(request, found.rows, lambda row: row.place, AMPLIFIED, span=(start, end))
        told = documents_capacity.amplification_document(found, rows)
        return Response({"environment": self.environment, **told, "next": further})


class SpendAccounts(ApiView):
    """`GET /api/v1/spend-accounts`: spending of today (UTC) and of runs in flight, the nearest to a cap first.

    As of the newest heartbeats. An account of a day or a source is that of one service on one machine (`ledger`).
    """

    asks = paged()

    def get(self, request: Request) -> Response:
        caps = parse_policy(live_policy(self.environment).document).spend_caps
        found = spend_accounts(self.environment, caps, timezone.now()) if caps.is_on else []
        rows, further = page_of(request, found, lambda row: row.place, SPENT)
        told = [documents_capacity.spend_account_document(row) for row in rows]
        return Response({"environment": self.environment, "accounts": told, "next": further})


class ReportOf(ApiView):
    """`GET /api/v1/report`: runs, time, money, MTTA and MTTR, deadlines, load and noise of a range, and its weeks.

    A range is the last `weeks`, the current one being the last, or one week, or one month, as far as it has come.
    """

    asks = {
        "weeks": f"how many, to {WEEKS_MOST} (4)",
        "week": "instead, the one week (from Monday, UTC) that this day lies in: YYYY-MM-DD",
        "month": "instead, one calendar month (UTC): YYYY-MM",
    }

    def get(self, request: Request) -> Response:
        now = timezone.now()
        weeks = read_number_parameter(request, "weeks", 4)
        if not 1 <= weeks <= WEEKS_MOST:
            raise CommandRejected("invalid", f"weeks is from 1 to {WEEKS_MOST}.", fields={"weeks": "is out of bounds"})
        start, end = weeks_before(now, weeks)
        for name, of, like in (("week", week_with, "2026-01-31"), ("month", month_with, "2026-01")):
            if (given := request.query_params.get(name)) is not None:
                span = of(_day(given, name, like), now)
                if span is None:
                    raise CommandRejected("invalid", f"That {name} has not begun.", fields={name: "has not begun"})
                start, end = span
        found = report_of(self.environment, start=start, end=end, now=now)
        runs = recoveries(self.environment, first=today_of(start), last=today_of(end - timedelta.resolution))
        return Response(
            {
                "environment": self.environment,
                **documents_capacity.report_document(found),
                "recovery": documents_capacity.recovery_document(runs),
            }
        )


def _day(said: str, name: str, like: str) -> date:
    try:
        return date.fromisoformat(said if name == "week" else f"{said}-01")
    except ValueError:
        detail = f"{name} {said!r} is not a {name}; use {like}."
        raise CommandRejected(
            "invalid", detail, fields={name: f"is no {'day' if name == 'week' else 'month'}"}
        ) from None


def _done(environment: str, done: CommandResult[CapacityEvent]) -> dict[str, Any]:
    return {
        "event": done.object.pk,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "step": steps_of(environment),
    }


def range_of(request: Request, now: datetime) -> tuple[datetime, datetime]:
    """`from` and `to`, at most 31 days apart. Raises CommandRejected (400)."""
    end = moment_in(request, "to") or now
    start = moment_in(request, "from") or end - LOOKED_BACK
    if not timedelta() < end - start <= LONGEST:
        raise CommandRejected("invalid", "from is before to, by at most 31 days.", fields={"from": "is out of bounds"})
    return start, end


def moment_in(request: Request, name: str) -> datetime | None:
    """A moment that is asked for, None where it is not. Raises CommandRejected (400)."""
    text = request.query_params.get(name, "")
    return _instant(text, name) if text else None


def _instant(text: str, field: str) -> datetime:
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or not 2000 <= found.year < 2200:
        detail = f"{field} is a moment in ISO 8601, as 2026-01-31T14:05:00Z."
        raise CommandRejected("invalid", detail, fields={field: "is not a moment"})
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
