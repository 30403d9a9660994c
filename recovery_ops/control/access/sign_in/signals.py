"""What is done when somebody comes in or confirms who they are."""

from __future__ import annotations

from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.signals import authentication_step_completed
from allauth.account.signals import user_logged_in as came_in
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from recovery_ops.control.access.services import sign_ins
from recovery_ops.control.access.sign_in import sessions
from recovery_ops.control.core.environment import origin_of


def follow() -> None:
    """Listen to Django and django-allauth."""
    user_logged_in.connect(sessions.began, dispatch_uid="bounds of sessions")
    authentication_step_completed.connect(sessions.confirmed, dispatch_uid="fresh sign-ins")
    came_in.connect(_came_in, dispatch_uid="sign-ins in the audit log")


def _came_in(sender: Any, request: HttpRequest, user: User, **more: Any) -> None:
    how = {str(record.get("method", "")) for record in get_authentication_records(request, user)}
    sign_ins.note_sign_in(user, how, origin_of(request))
