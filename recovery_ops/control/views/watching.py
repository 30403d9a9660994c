"""The form by which a person watches a breaker, or stops to."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from recovery_ops.control.actions import Done, Refused
from recovery_ops.control.actions.checks import require_known_breaker
from recovery_ops.control.actions.watching import PERMISSION, unwatch, watch, watch_of
from recovery_ops.control.context import actor_of
from recovery_ops.control.settings_forms import SettingForm
from recovery_ops.control.views.settings import Asking, answer, require
from recovery_ops.rules.scope import Scope


class WatchForm(SettingForm):
    """Nothing is asked: whoever watches is told, and may stop at any time."""

    reason = None  # type: ignore[assignment]  # to be told is reason enough


@require_http_methods(["GET", "POST"])
def watching(request: HttpRequest, *, environment: str, name: str) -> HttpResponse:
    """Watch a breaker, or stop to where one does. 404 for what nobody reported."""
    require(request, PERMISSION, environment)
    if request.method == "GET":
        _known(environment, name)
    is_watched = watch_of(environment, name, request.user.get_username()) is not None
    act = unwatch if is_watched else watch

    def carry_out(typed: dict[str, Any]) -> Done[Any]:
        asked: Any = {"by": actor_of(request), "environment": environment, "reason": "", "key": typed["key"] or None}
        return act(**asked, name=name)

    lead = "You are told no more when it moves." if is_watched else _LEAD
    asking = Asking(
        title=f"Stop watching {name}" if is_watched else f"Watch {name}",
        lead=lead,
        button="Stop watching" if is_watched else "Watch",
        here="notifications",
        crumb=name,
        back=reverse("breaker", args=[name]),
        form=partial(WatchForm),
        carry_out=carry_out,
        told=lambda done: f"You are told no more of {name}." if is_watched else f"You are told when {name} moves.",
    )
    return answer(request, asking)


_LEAD = (
    "An e-mail comes to you, and to nobody else, when it opens, closes again or is stuck. Your address is that of "
    "Settings, You."
)


def _known(environment: str, name: str) -> None:
    try:
        require_known_breaker(environment, Scope(operation=name))
    except Refused as refusal:
        raise Http404(refusal.detail) from refusal
