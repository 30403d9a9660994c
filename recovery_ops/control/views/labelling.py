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
from recovery_ops.control.actions import Done
from recovery_ops.control.actions.labelling import PERMISSION, label_instance, labels_of
from recovery_ops.control.context import actor_of
from recovery_ops.control.labels import LABELS_CHARS
from recovery_ops.control.settings_forms import SettingForm
from recovery_ops.control.views.settings import Asking, answer, require


class LabelForm(SettingForm):
    """Labels as they are typed; why is said by the label itself."""

    reason = None  # type: ignore[assignment]  # a label may be taken away again, and moves nothing
    labels = forms.CharField(
        max_length=LABELS_CHARS,
        help_text="Separated by commas. One behind a minus is taken away.",
        error_messages={"required": "Say at least one label."},
    )


@require_http_methods(["GET", "POST"])
def agent_label(request: HttpRequest, *, environment: str) -> HttpResponse:
    """`service` and `instance` name it. 404 for what never reported."""
    require(request, PERMISSION, environment)
    said = {**request.GET.dict(), **request.POST.dict()}
    service, instance = said.get("service", ""), said.get("instance", "")
    if request.method == "GET" and agent_named(environment, service, instance, now=timezone.now()) is None:
        raise Http404(f"No instance {service}/{instance} has ever reported in {environment}.")

    def carry_out(typed: dict[str, Any]) -> Done[Any]:
        asked: Any = {"by": actor_of(request), "environment": environment, "reason": "", "key": typed["key"] or None}
        return label_instance(**asked, service=service, instance=instance, labels=typed["labels"])

    held = labels_of(environment, service, instance)
    named = f"{service}/{instance}"
    asking = Asking(
        title=f"Label {named}",
        lead=f"It has {', '.join(held)}. The fleet can be narrowed to a label." if held else _LEAD,
        button="Label",
        here="agents",
        crumb=named,
        back=f"{reverse('agent-settings')}?{urlencode({'service': service, 'instance': instance})}",
        form=partial(LabelForm),
        carry_out=carry_out,
        told=lambda done: f"{named} has {', '.join(done.object.label_names) or 'no label'}.",
    )
    return answer(request, asking)


_LEAD = "It has none. The fleet can be narrowed to a label."
