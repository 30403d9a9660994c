"""The intake: what could not be taken in and why, and which names found no place. Nothing is missing without a word."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods

from events.ingest import tallies
from events.ingest.cardinality import Standing, standings
from events.models import Quarantine, Tally
from events.moments import from_us
from events.otlp import remarks
from events.pages.rendering import render_page
from events.wording import count_text
from recovery_ops.control.audit.guarded_content import show_line
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import parse_number, parse_numbers
from recovery_ops.control.core.pagination import newest_of
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.self_monitoring import services as self_monitoring_services

MOST = 100
UNPROCESSABLE = 422
_WORDS = {
    "operation": "operations",
    "breaker": "breakers",
    "source": "query sources",
    "provider": "providers",
    "model": "models",
    "region": "regions",
    "service": "services",
    "instance": "instances",
    "version": "service versions",
    "fingerprint": "failure fingerprints",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One record, or one body, that was set aside."""

    id: int
    at: datetime
    reason: str
    signal: str
    key_prefix: str
    size_bytes: int
    tries: int
    is_replayable: bool
    content: str | None
    """None: not shown, until somebody asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """One kind of name and how full it is."""

    words: str
    standing: Standing
    last_folded: datetime | None


@require_http_methods(["GET", "POST"])
def intake(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Show what was set aside and folded; or replay or drop lines (`act`), the chosen ones (`line`) or all.

    `act=show` shows the content of one line, once it is written down who asked.
    """
    if request.method == "GET":
        return _page(request, environment, ReasonForm(initial={"key": new_key()}))
    if request.POST.get("act") == "show":
        return _content(request, environment)
    if not visit_of(request).grants.may("mend_intake", environment):
        raise PermissionDenied(f"Your role lacks the permission to manage the quarantine of {environment}.")
    verb = "quarantine.drop" if request.POST.get("act") == "drop" else "quarantine.replay"
    form = ReasonForm(request.POST, is_reason_needed=needs_reason(verb, environment))
    if not form.is_valid():
        return _page(request, environment, form, status=UNPROCESSABLE)
    given = request.POST.getlist("line")
    chosen = parse_numbers(given)
    if len(chosen) < len(set(given)):  # without a number the form means all records
        raise Http404("The selection contains an invalid record number.")
    is_drop = request.POST.get("act") == "drop"
    settle = self_monitoring_services.drop_quarantine if is_drop else self_monitoring_services.replay_quarantine
    try:
        done = settle(
            by=actor_of(request),
            environment=environment,
            reason=form.cleaned_data["reason"],
            key=form.cleaned_data["key"] or None,
            lines=chosen or None,
        ).object
    except CommandRejected as rejection:
        if rejection.status == 403:
            raise PermissionDenied(rejection.detail) from rejection
        add_errors(form, rejection.fields)
        return _page(request, environment, form, status=rejection.status, problem=rejection.detail)
    told = (
        f"{count_text(done.settled, 'record')} deleted."
        if is_drop
        else f"{count_text(done.settled, 'record')} replayed, {count_text(done.stored, 'new event')}; "
        f"{done.left} failed."
    )
    return redirect_with_notice(request, reverse("intake"), told)


def _content(request: HttpRequest, environment: str) -> HttpResponse:
    """The page with the content of one line."""
    number = parse_number(request.POST.get("line", ""))
    if number is None:
        raise Http404("No record is selected; select at least one.")
    try:
        line = show_line(by=actor_of(request), environment=environment, number=number)
    except CommandRejected as rejection:
        raise (PermissionDenied if rejection.status == 403 else Http404)(rejection.detail) from rejection
    answer = _page(request, environment, ReasonForm(initial={"key": new_key()}), opened=line)
    add_never_cache_headers(answer)
    return answer


def _page(
    request: HttpRequest,
    environment: str,
    form: ReasonForm,
    *,
    status: int = 200,
    problem: str = "",
    opened: Quarantine | None = None,
) -> HttpResponse:
    kept = Quarantine.objects.filter(environment=environment)
    counted = tallies.tallies_of(environment)
    total = kept.count()
    names = [_names(one) for one in standings(environment, counted)]
    shown = newest_of(request, kept.defer("payload", "content"), MOST, "pk")
    context = {
        "now": timezone.now(),
        "sentence": _sentence(environment, total, names),
        "lines": [_line(one, opened) for one in shown.rows],
        "page": shown,
        "total": total,
        "tallies": _tallies(counted),
        "names": names,
        "form": form,
        "chosen": request.POST.getlist("line"),
        "problem": problem,
    }
    return render_page(request, "self_monitoring/intake", context, status=status)


def _line(one: Quarantine, opened: Quarantine | None) -> Line:
    return Line(
        id=one.pk,
        at=from_us(one.received_us),
        reason=one.reason,
        signal=one.signal,
        key_prefix=one.key_prefix,
        size_bytes=one.size_bytes,
        tries=one.tries,
        is_replayable=bool(one.encoding),
        content=opened.content if opened is not None and opened.pk == one.pk else None,
    )


def _names(one: Standing) -> Names:
    last = None if one.last_folded_us is None else from_us(one.last_folded_us)
    return Names(words=_WORDS[one.kind.value], standing=one, last_folded=last)


def _tallies(counted: dict[str, Tally]) -> list[tuple[str, int]]:
    words = {
        tallies.SET_ASIDE: "quarantined",
        tallies.REPLAYED: "replayed",
        tallies.DROPPED: "deleted by users",
        tallies.LET_GO: "dropped, quarantine full",
    }
    ever = [(word, counted[name].count if name in counted else 0) for name, word in words.items()]
    return ever + [(word, counted[reason].count) for reason, word in remarks.WORDS.items() if reason in counted]


def _sentence(environment: str, total: int, names: list[Names]) -> str:
    """What a person has to know first."""
    full = [one.words for one in names if one.standing.folded and one.standing.is_full]
    told = f"{count_text(total, 'quarantined record')} of {environment}." if total else ""
    if full:
        told += f" Limit reached for {' and '.join(full)}: new names are (other)."
    return told.strip() or f"All events of {environment} were stored."
