"""The addresses of the notifications' settings."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse
from django.urls import URLPattern, path
from django.views.generic import RedirectView

from recovery_ops.control.notifications.views import digests, escalation_policies, mutes
from recovery_ops.control.notifications.views import settings as notifications

Page = Callable[..., HttpResponse]
_HOME = "settings/notifications"


def pages(seeing: Callable[[Page], Page]) -> list[URLPattern]:
    """The pages, behind the door that knows who may look."""
    return [
        path(_HOME, seeing(notifications.notifications), name="notifications"),
        path(f"{_HOME}/", RedirectView.as_view(pattern_name="notifications")),
        path(f"{_HOME}/log", seeing(notifications.log), name="notification-log"),
        path(f"{_HOME}/snoozes/new", seeing(mutes.snooze), name="snooze-notices"),
        path(f"{_HOME}/snoozes/<number:number>/lift", seeing(mutes.lift_snooze), name="lift-snooze"),
        path(f"{_HOME}/channels/new/<str:kind>", seeing(notifications.new_channel), name="new-channel"),
        path(f"{_HOME}/channels/<number:number>", seeing(notifications.edit_channel), name="edit-channel"),
        path(f"{_HOME}/channels/<number:number>/test", seeing(notifications.test_channel), name="test-channel"),
        path(f"{_HOME}/channels/<number:number>/digest", seeing(digests.digest), name="channel-digest"),
        path(f"{_HOME}/channels/<number:number>/remove", seeing(notifications.remove_channel), name="remove-channel"),
        path(f"{_HOME}/rules/new", seeing(notifications.new_rule), name="new-notification-rule"),
        path(f"{_HOME}/rules/<number:number>", seeing(notifications.edit_rule), name="edit-notification-rule"),
        path(
            f"{_HOME}/rules/<number:number>/remove", seeing(notifications.remove_rule), name="remove-notification-rule"
        ),
        path(f"{_HOME}/chains/new", seeing(escalation_policies.chain), name="new-chain"),
        path(f"{_HOME}/chains/<number:number>", seeing(escalation_policies.chain), name="edit-chain"),
        path(f"{_HOME}/chains/<number:number>/remove", seeing(escalation_policies.remove_chain), name="remove-chain"),
    ]
