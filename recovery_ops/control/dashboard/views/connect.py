"""Connect an agent: one button creates a key and fills it into snippets; the page shows the first event."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from events.failures.asking import last_number
from events.models import Agent, AgentKey, Fact, Quarantine
from events.pages.rendering import fragment_of, render_page
from recovery_ops.control.access.services import keys
from recovery_ops.control.access.sign_in.sessions import sign_in_again
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice, see_other
from recovery_ops.control.dashboard.snippets import SERVICE, key_command, snippets_for

_SCOPES = ("ingest", "desired")
_REASON = "Created on the page Connect an agent."


@require_http_methods(["GET", "POST"])
def connect(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The snippets, with a placeholder for the key; POST creates a key and fills it in, this once."""
    token = ""
    if request.method == "POST":
        if not visit_of(request).grants.may(keys.PERMISSION, environment):
            raise PermissionDenied(f"Your role lacks the permission to create keys in {environment}.")
        if again := sign_in_again(request):
            return again
        try:
            done = keys.make_key(
                by=actor_of(request), environment=environment, reason=_REASON, name=SERVICE, scopes=_SCOPES
            )
        except CommandRejected as rejection:
            return redirect_with_notice(request, reverse("connect"), rejection.detail)
        token = done.object.token or ""
    answer = render_page(request, "dashboard/connect", connecting(request, environment, token=token))
    if token:
        answer["Cache-Control"] = "no-store"
    return answer


def status(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Whether an event arrived after the one that `after` numbers, of `service` where one is named."""
    if not fragment_of(request):
        return see_other(reverse("connect"))
    after = parse_number(request.GET.get("after", "")) or 0
    context = status_of(environment, after=after, service=request.GET.get("service", ""), now=timezone.now())
    return render_page(request, "dashboard/connect_status", context)


def connecting(request: HttpRequest, environment: str, *, token: str = "") -> Mapping[str, Any]:
    """What the snippets and the status are made of. `token` is the secret of a key that was just created."""
    # Where other agents report, only events of the snippets count.
    service = SERVICE if Agent.objects.filter(environment=environment).exists() else ""
    base = Path(settings.BASE_DIR)
    checkout = base if (base / "pyproject.toml").is_file() else None
    visit, demo = visit_of(request), settings.DEMO_ENVIRONMENT
    is_admin = visit.grants.may(keys.PERMISSION, environment)
    origin = request.build_absolute_uri("/").rstrip("/")
    return {
        "origin": origin,
        "token": token,
        "demo": demo if demo in visit.environments and demo != environment else "",
        "own": next((name for name in visit.environments if name != demo), "") if environment == demo else "",
        "snippets": snippets_for(origin=origin, key=token, checkout=checkout if is_admin else None),
        "key_command": key_command(environment, checkout=base, data=settings.DATA_DIR) if is_admin else "",
        **status_of(environment, after=last_number(), service=service, now=timezone.now()),
    }


def status_of(environment: str, *, after: int, service: str, now: datetime) -> Mapping[str, Any]:
    """The first event that arrived since, where to look at it, and rejected requests."""
    found = Fact.objects.filter(environment=environment, pk__gt=after)
    if service:
        agents = Agent.objects.filter(environment=environment, service=service)
        found = found.filter(agent__in=list(agents.values_list("pk", flat=True)))
    first = found.select_related("agent").order_by("pk").first()
    rejected = Quarantine.objects.filter(environment=environment)
    last = rejected.order_by("-received_us").first()
    query = urlencode({"after": str(after), "service": service})
    return {
        "now": now,
        "address": f"{reverse('connect-status')}?{query}",
        "first": first,
        "first_at": datetime.fromtimestamp(first.received_us / 1e6, UTC) if first else None,
        "first_href": _page_of(first) if first else "",
        "keys": AgentKey.objects.filter(environment=environment, revoked_at=None).count(),
        "rejected": rejected.count() if last is not None else 0,
        "last_rejection": last,
        "last_rejected_at": datetime.fromtimestamp(last.received_us / 1e6, UTC) if last is not None else None,
    }


def _page_of(event: Fact) -> str:
    """The page that shows an event: its run's, else its agent's."""
    if event.run:
        return reverse("run", args=[event.run])
    named = {"service": event.agent.service, "instance": event.agent.instance}
    return f"{reverse('agent-settings')}?{urlencode(named)}"
