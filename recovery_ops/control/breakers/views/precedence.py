"""Which override and which rule wins at one place, and why."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events.pages.rendering import render_page
from recovery_ops.control.breakers.precedence import placed, verdict_of
from recovery_ops.control.desired_state.document import Who
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS
from recovery_ops.rules.policy.scope import Place

_MOST_CHARS = 200


def explain(request: HttpRequest, *, environment: str) -> HttpResponse:
    """A form for a place (`operation`, `service`, `instance`, `group`, `kind`), and what holds there."""
    now = timezone.now()
    said = {
        name: request.GET.get(name, "").strip()[:_MOST_CHARS]
        for name in ("operation", "breaker", "service", "instance", "group", "kind")
    }
    kind = said["kind"] if said["kind"] in BUILT_IN_DEFAULTS else "operation"
    place = placed(
        environment,
        Place(
            operation=said["operation"],
            breaker=said["breaker"] or said["operation"],
            service=said["service"],
            instance=said["instance"],
            group=said["group"],
        ),
        now=now,
    )
    said |= {"service": place.service, "group": place.group}
    standing = Standing(environment, now=now)
    context = {
        "now": now,
        "said": said,
        "kind": kind,
        "kinds": list(BUILT_IN_DEFAULTS),
        "policy": standing.snapshot.policy_for(
            Who(service=said["service"], instance=said["instance"], group=said["group"])
        ),
        "revision": standing.revision,
        "found": verdict_of(standing.snapshot, place, now=now, kind=kind) if said["operation"] else None,
    }
    return render_page(request, "breakers/explain", context)
