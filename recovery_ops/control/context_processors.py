"""Values that every template may use."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from events.capacity.asking import count_going_on
from events.pages.scoped import scope_query
from events.pages.window import carried
from events.queries import breakers_named, count_silent
from recovery_ops.control.core.environment import Visit, visit_of
from recovery_ops.control.core.filter_chips import chips_of
from recovery_ops.control.core.jobs import in_tray
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.core.unknown_parameters import unknown_parameters
from recovery_ops.control.demonstration.selectors import demonstration_of
from recovery_ops.control.escalations.selectors.queue import unacknowledged
from recovery_ops.control.saved_views.selectors import in_use


def template_context(request: HttpRequest) -> dict[str, Any]:
    """What every template may use: `environment`, `environments`, `role`, `may`, `nav` …

    `is_production` is of the environment, `revision` its newest change. `may.trip` and so on are the permissions of
    `roles.LEAST_ROLE`. `nav.breakers` counts those that do not flow, `nav.agents` those that do not report,
    `nav.capacity` the outages that go on, `nav.escalations` what nobody has taken, `nav.requests` what waits for a
    second person. `carried` is the range and the scope that the address asks for, for links to other screens, `kept_to`
    the chips of the scope, `unheard` what of the address the page ignored. `has_tray`: this session asked for long work
    that may still go on. What a page does not print is not asked for.
    """
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    visit = visit_of(request)
    return {
        "environment": visit.environment,
        "environments": visit.environments,
        "is_production": visit.is_production,
        "role": visit.role or "no role",
        "may": visit.grants.permissions(visit.environment),
        "revision": SimpleLazyObject(partial(current_revision, visit.environment)),
        "nav": SimpleLazyObject(partial(_nav, visit)),
        "carried": "&".join(filter(None, (carried(request), scope_query(request)))),
        "kept_to": chips_of(request),
        "unheard": unknown_parameters(request),
        "has_tray": in_tray(request.session, timezone.now()),
        "demonstration": SimpleLazyObject(partial(demonstration_of, visit.environment)),
        "view_in_use": SimpleLazyObject(partial(in_use, request, visit.environment)),
    }


def _nav(visit: Visit) -> dict[str, int]:
    if not visit.grants.may("see", visit.environment):
        return {"breakers": 0, "agents": 0, "capacity": 0, "escalations": 0, "requests": 0}
    now = timezone.now()
    return {
        "breakers": sum(not row.is_flowing for row in breakers_named(visit.environment, None, now=now)),
        "agents": count_silent(visit.environment, now=now),
        "capacity": count_going_on(visit.environment, now=now),
        "escalations": unacknowledged(visit.environment, now),
        "requests": ApprovalRequest.objects.waiting(visit.environment, now).count(),
    }
