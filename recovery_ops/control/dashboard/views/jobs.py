"""What somebody asked for and goes on, in the tray of the header and on their own page: exports, replays, and what
instances are to obey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from events.pages.rendering import fragment_of, render_page
from events.wording import count_text
from recovery_ops.control.core.jobs import in_tray, leave_tray, put_into_tray
from recovery_ops.control.core.models.jobs import Job
from recovery_ops.control.core.responses import see_other
from recovery_ops.control.desired_state.pending_changes import APPLYING, LATE, TOLD_FOR, Note, has_late, notes_of
from recovery_ops.control.exports.catalogue import LISTS
from recovery_ops.control.exports.models import Export
from recovery_ops.control.replay.models.replays import Replay

J = TypeVar("J", bound=Job)

MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One job as people follow it. `rate_per_s` and `left_s` are None while they cannot be told."""

    job: Job
    title: str
    href: str
    file_href: str
    sentence: str
    done: int
    total: int
    share: float
    counts: str
    rate_per_s: float | None
    left_s: float | None

    @property
    def key(self) -> str:
        """What the script knows it by."""
        return self.href.replace("/", "-").strip("-")


def jobs(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The newest jobs of whoever looks."""
    now = timezone.now()
    lines = _lines(request.user.pk, environment, Q(), now)[:MOST]
    notes = notes_of(int(request.user.pk or 0), environment, request.session, now)
    if notes or any(line.job.is_unfinished for line in lines):
        put_into_tray(request.session, now)
    return render_page(request, "core/jobs", {"now": now, "lines": lines, "notes": notes, "most": MOST})


def tray(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The part of the header that names what goes on, and for a while what has ended."""
    if not fragment_of(request):
        return see_other(reverse("jobs"))
    now = timezone.now()
    lately = Q(state__in=Job.UNFINISHED) | Q(finished_at__gt=now - TOLD_FOR)
    lines = _lines(request.user.pk, environment, lately, now)
    notes = notes_of(int(request.user.pk or 0), environment, request.session, now)
    is_over = not lines and not notes and not has_late(request.session)
    if is_over and in_tray(request.session, now) and not _has_unfinished(request.user.pk):
        leave_tray(request.session)
    running = [line for line in lines if line.job.is_unfinished]
    context = {
        "now": now,
        "lines": lines,
        "notes": notes,
        "late": [note for note in notes if note.state == LATE],
        "running": running,
        "shown": next(iter([*running, *lines]), None),
        "poll_s": _poll_s(running, notes),
    }
    return render_page(request, "core/jobs", context, part="core/_tray.html")


def _poll_s(running: Sequence[Line], notes: Sequence[Note]) -> int:
    """How soon the tray asks again: soon while something moves, not so soon for what may stay as it is, 0 for never."""
    if running or any(note.state == APPLYING for note in notes):
        return 2
    return 10 if notes else 0


def _has_unfinished(user_id: int | None) -> bool:
    """Whether anything of theirs goes on, in whichever environment: the mark is of all of them."""
    return any(kind.objects.filter(by_user_id=user_id, state__in=Job.UNFINISHED).exists() for kind in (Export, Replay))


def line_of(job: Export | Replay, now: datetime) -> Line:
    """A job as people follow it."""
    return _of_export(job, now) if isinstance(job, Export) else _of_replay(job, now)


def _lines(user_id: int | None, environment: str, which: Q, now: datetime) -> list[Line]:
    found = [*_mine(Export.objects.all(), user_id, environment, which)]
    replays = Replay.objects.defer("old_document", "new_document", "result")
    every: Sequence[Export | Replay] = [*found, *_mine(replays, user_id, environment, which)]
    newest_first = sorted(every, key=lambda one: one.asked_at, reverse=True)
    return [line_of(one, now) for one in newest_first]


def _mine(found: QuerySet[J], user_id: int | None, environment: str, which: Q) -> QuerySet[J]:
    return found.filter(which, environment=environment, by_user_id=user_id).order_by("-asked_at")[:MOST]


def _of_export(one: Export, now: datetime) -> Line:
    found = LISTS[one.what]
    return _line(
        one,
        now,
        title=f"Export of {found.title}",
        href=reverse("export", args=[one.number]),
        file_href=reverse("export-file", args=[one.number]) if one.state == Job.DONE else "",
        done=one.done,
        total=one.total,
        share=one.done / one.total if one.total else 0.0,
        counts=found.counts,
        ended=_ended(one),
    )


def _of_replay(one: Replay, now: datetime) -> Line:
    return _line(
        one,
        now,
        title=f"Replay {one.number}",
        href=reverse("replay", args=[one.number]),
        file_href="",
        done=one.done_facts,
        total=one.total_facts,
        share=(one.read_facts + one.done_facts) / 2 / one.total_facts if one.total_facts else 0.0,
        counts="events replayed",
        ended=f"{one.done_facts:,} events replayed.",
    )


def _line(
    job: Job,
    now: datetime,
    *,
    title: str,
    href: str,
    file_href: str,
    done: int,
    total: int,
    share: float,
    counts: str,
    ended: str,
) -> Line:
    share = 1.0 if job.state == Job.DONE else min(1.0, share)
    took_s = ((job.finished_at or now) - job.started_at).total_seconds() if job.started_at else 0.0
    is_running = job.state == Job.RUNNING
    rate_per_s = done / took_s if is_running and took_s > 0 and done else None
    left_s = took_s * (1 - share) / share if is_running and 0 < share < 1 and took_s > 0 else None
    told = {
        Job.WAITING: "Pending.",
        Job.RUNNING: f"{done:,} of {total:,} {counts}." if total else "Starting.",
        Job.DONE: ended,
        Job.FAILED: job.problem or "Failed.",
        Job.CANCELLED: "Cancelled.",
    }
    return Line(
        job=job,
        title=title,
        href=href,
        file_href=file_href,
        sentence="Being cancelled." if job.is_unfinished and job.is_cancel_asked else told[job.state],
        done=done,
        total=total,
        share=share,
        counts=counts,
        rate_per_s=rate_per_s,
        left_s=left_s,
    )


def _ended(one: Export) -> str:
    found = LISTS[one.what]
    cut = ", the maximum of one file; later rows are missing" if one.is_cut else ""
    return f"{count_text(one.rows, found.one, found.several)}{cut}."
