"""The page that removes the demonstration."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from events.models import Agent
from events.store.removal import count_events
from events.wording import count_text
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.settings_forms import SettingForm
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require
from recovery_ops.control.demonstration.selectors import demonstration_of
from recovery_ops.control.demonstration.services import PERMISSION, remove_demonstration

_REASON = "Removed on the page."


class RemovalForm(SettingForm):
    """Nothing but the button: the page lists what goes."""

    reason = None  # type: ignore[assignment]  # nobody needs a reason to end a demonstration


@require_http_methods(["GET", "POST"])
def remove(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What is deleted, and the button that does it."""
    require(request, PERMISSION, environment)
    found = demonstration_of(environment)
    if found is None or found.removed_at is not None:
        raise Http404(f"{environment} has no demonstration.")
    own = next((name for name in visit_of(request).environments if name != environment), "")
    back = f"{reverse('overview')}?{urlencode({'environment': own})}" if own else reverse("overview")
    asking = SettingsFormView(
        title="Remove demonstration data",
        lead=f"The demonstration stops, and everything in the environment {environment} is deleted: "
        f"{_content(environment)}. Its keys are revoked. Other environments and the audit log stay.",
        button="Remove data",
        here="",
        back=back if request.method == "POST" else reverse("overview"),
        crumb="Overview",
        form=RemovalForm,
        carry_out=lambda typed: remove_demonstration(
            by=actor_of(request),
            environment=environment,
            reason=_REASON,
            key=typed["key"] or None,
            confirm=environment,
        ),
        told=lambda done: "Demonstration removed. Its data is deleted within a minute.",
    )
    return answer(request, asking)


def _content(environment: str) -> str:
    """Its events, instances and services, with their numbers; the rest by kind."""
    agents = Agent.objects.filter(environment=environment)
    services = ", ".join(sorted(set(agents.values_list("service", flat=True))))
    named = f" ({services})" if services else ""
    return (
        f"{count_text(count_events(environment), 'event')} of {count_text(agents.count(), 'instance')}{named}, and the "
        "escalations, incidents, overrides, policies, notification settings and messages of this environment"
    )
