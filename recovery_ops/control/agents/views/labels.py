"""The form by which people give an instance labels, and take them away."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.queries import agent_named
from recovery_ops.control.agents.services.labels import PERMISSION, label_instance, labels_of
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.labels import LABELS_CHARS
from recovery_ops.control.core.settings_forms import SettingForm
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require


class LabelForm(SettingForm):
    """Labels as they are typed; why is said by the label itself."""

    reason = None  # type: ignore[assignment]  # a label may be taken away again, and moves nothing
    labels = forms.CharField(
        max_length=LABELS_CHARS,
        help_text="Separated by commas. A minus before a label removes it.",
        error_messages={"required": "Type at least one label."},
    )


@require_http_methods(["GET", "POST"])
def agent_label(request: HttpRequest, *, environment: str) -> HttpResponse:
    """`service` and `instance` name it. 404 for what never reported."""
    require(request, PERMISSION, environment)
    said = {**request.GET.dict(), **request.POST.dict()}
    service, instance = said.get("service", ""), said.get("instance", "")
    if request.method == "GET" and agent_named(environment, service, instance, now=timezone.now()) is None:
        raise Http404(f"No instance {service}/{instance} has reported in {environment}.")

    def carry_out(typed: dict[str, Any]) -> CommandResult[Any]:
        asked: Any = {"by": actor_of(request), "environment": environment, "reason": "", "key": typed["key"] or None}
        return label_instance(**asked, service=service, instance=instance, labels=typed["labels"])

    held = labels_of(environment, service, instance)
    named = f"{service}/{instance}"
    asking = SettingsFormView(
        title=f"Label {named}",
        lead=f"Labels: {', '.join(held)}. A label filters the list of agents." if held else _LEAD,
        button="Save labels",
        here="agents",
        crumb=named,
        back=f"{reverse('agent-settings')}?{urlencode({'service': service, 'instance': instance})}",
        form=partial(LabelForm),
        carry_out=carry_out,
        told=lambda done: f"Labels of {named} saved: {', '.join(done.object.label_names) or 'none'}.",
    )
    return answer(request, asking)


_LEAD = "No labels yet. A label filters the list of agents."
