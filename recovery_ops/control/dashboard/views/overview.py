"""The overview: is anything wrong, who holds it, what changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from events import queries
from events.capacity.asking import events_going_on
from events.capacity.rows import OWNER_WORDS
from events.deployments.asking import deployments
from events.models import Agent
from events.pages.rendering import fragment_of, render_page
from events.pages.scoped import Backend
from events.pages.window import PRESETS, window_in
from events.wording import bins_text
from recovery_ops.control.audit.wording import causes_in
from recovery_ops.control.core.commands import scope_words
from recovery_ops.control.core.responses import see_other
from recovery_ops.control.dashboard.due import BEGINS_FOR, KEY, NOTICES, SNOOZE, Due, called_in, due_in, head_in
from recovery_ops.control.dashboard.headlines import calm_headline, escalations_headline
from recovery_ops.control.dashboard.views.changes import LATELY, lately_in, newest_entries, what_changed
from recovery_ops.control.dashboard.views.first_steps import first_run, still_to_do
from recovery_ops.control.dashboard.views.lanes import strip_of
from recovery_ops.control.dashboard.views.needs_attention import MOST, items_now
from recovery_ops.control.dashboard.views.recovered import SPAN_WORDS, SPANS, looking_back
from recovery_ops.control.dashboard.views.tiles import tiles
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.escalations.selectors import queue
from recovery_ops.rules.policy.scope import ANY

SOON = timedelta(hours=24)
_NOUNS = {"forced_open": "Trip", "disabled": "Disable", "metrics_only": "Observe"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What ends by itself, and where to prolong it: an override, or by its `act` load that is "shed", a "key", a
    "snooze" of a question or one of "notices".
    """

    id: str
    mode: str
    title: str
    by: str
    revision: int | None
    expires_at: datetime
    href: str
    extend_href: str
    act: str = "trip"


def overview(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Current problems, worst first; with `over=7d` or `30d` the outcomes of runs; with `kiosk=1` the wallboard."""
    if request.GET.get("kiosk") == "1":
        return redirect("wallboard")
    now = timezone.now()
    if request.GET.get("over") in SPANS and Agent.objects.filter(environment=environment).exists():
        return looking_back(request, environment, now=now)
    window = window_in(request, environment, now=now)
    ranges = queries.Ranges(window.start, window.end, window.began)
    backend = Backend.of(request.GET)
    numbers = queries.overview_numbers(environment, now=now, ranges=ranges, backend=backend)
    if not numbers.agents and not Agent.objects.filter(environment=environment).exists():
        return first_run(request, environment, now)
    # Before what is desired: should a change come in between, the next page finds another hash and reads again.
    is_young = window.began is not None and window.began > now - BEGINS_FOR
    due = due_in(environment, now=now, since=window.start - window.length, wants_beginnings=is_young)
    standing = Standing(environment, now=now, head=head_in(due))
    outages = events_going_on(environment, now=now)
    waiting = queue.rows_of(environment, "open", by=None, now=now)
    entries = newest_entries(environment, head=standing.head)
    called = called_in(due, environment, now, also=causes_in(lately_in(entries, now)))
    most = None if request.GET.get("items") == "all" else MOST
    items = items_now(numbers, standing, escalations=waiting, outages=outages, due=due, called=called, most=most)
    headline = queries.sentence(environment, now, numbers=numbers, outages=outages)
    is_incident = numbers.agents_reporting and outages
    attribution = OWNER_WORDS[queries.worst_incident(outages).owner] if is_incident else ""
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "over": "",
        "is_demo": environment == settings.DEMO_ENVIRONMENT,
        "spans": SPAN_WORDS,
        "sentence": f"{headline}{escalations_headline(waiting, now)}",
        "attribution": attribution,
        **(still_to_do(due) if is_young else {}),
        "tiles": tiles(numbers, escalations=waiting, due=due, window=window, now=now, backend=backend),
        "items": items,
        "most_items": MOST,
        "last_trouble": None if items.total else queries.last_trouble(environment, now=now),
        "calm": calm_headline(numbers),
        "is_known": numbers.agents_reporting > 0,
        "changes": what_changed(
            entries,
            deployments(environment, start=now - LATELY, end=now),
            now=now,
            called=called,
        ),
        "expiring": sorted([*endings(standing, before=now + SOON), *endings_due(due)], key=lambda one: one.expires_at),
    }
    return render_page(request, "dashboard/overview", context)


def strip(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The lanes of the range, in a request of their own because they are the most expensive part."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    lanes = strip_of(environment, window, Backend.of(request.GET))
    context = {"now": now, "window": window, "lanes": lanes, "bins_words": bins_text(lanes.bin_s)}
    return render_page(request, "dashboard/strip", context)


def counts(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The two numbers in the navigation; `nav` is counted by the context processor."""
    return render_page(request, "counts", {}) if fragment_of(request) else see_other(reverse("overview"))


def endings(standing: Standing, *, before: datetime) -> Iterable[Ending]:
    """Overrides and load shedding that end before a moment."""
    for one in standing.overrides:
        expires_at = datetime.fromtimestamp(one.expires_at, UTC)
        if expires_at < before:
            name = one.scope.operation
            page = reverse("breakers") if ANY in name else reverse("breaker", args=[name])
            extend = reverse("breaker-extend", args=[name])
            yield Ending(
                id=one.id,
                mode=one.mode,
                title=f"{_NOUNS[one.mode]} of {scope_words(one.scope)}",
                by=one.by,
                revision=one.revision,
                expires_at=expires_at,
                href=page,
                extend_href=f"{extend}?override={one.id}",
            )
    held = standing.shed
    if held is not None and datetime.fromtimestamp(held.expires_at, UTC) < before:
        yield Ending(
            id=held.id,
            mode="forced_open",
            title=f"Load shedding below {held.least.replace('_', ' ')}",
            by=held.by,
            revision=held.revision,
            expires_at=datetime.fromtimestamp(held.expires_at, UTC),
            href=reverse("shed"),
            extend_href=reverse("shed"),
            act="shed",
        )


def endings_due(due: Iterable[Due]) -> Iterable[Ending]:
    """Keys that expire, snoozed escalations and mutes that end."""
    for one in due:
        if one.kind == KEY:
            yield Ending(
                id=f"key-{one.ref}",
                mode="unknown",
                title=f"Key {one.name}",
                by=f"{one.ref}…",
                revision=None,
                expires_at=one.at,
                href=reverse("keys"),
                extend_href=reverse("rotate-key", args=[one.ref]),
                act="key",
            )
        elif one.kind == SNOOZE:
            yield Ending(
                id=f"snooze-{one.ref}",
                mode="half_open",
                title=f"Snooze of ESC-{one.ref}",
                by=one.name,
                revision=None,
                expires_at=one.at,
                href=reverse("escalation", args=[int(one.ref)]),
                extend_href=f"{reverse('respond', args=['snooze'])}?number={one.ref}&back={reverse('overview')}",
                act="snooze",
            )
        elif one.kind == NOTICES:
            asked = urlencode({"provider": one.name, "back": reverse("overview")})
            yield Ending(
                id=f"notices-{one.ref}",
                mode="half_open",
                title=f"Mute of {one.name}",
                by=f"{one.by}: {one.why}",
                revision=None,
                expires_at=one.at,
                href=f"{reverse('notifications')}#snoozes-title",
                extend_href=f"{reverse('snooze-notices')}?{asked}",
                act="notices",
            )
