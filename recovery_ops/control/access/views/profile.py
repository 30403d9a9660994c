"""What everybody sets for themselves: how the console looks to them, where they are written to, their password."""

from __future__ import annotations

from allauth.core.ratelimit import consume_or_429
from allauth.usersessions.models import UserSession
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from recovery_ops.control.access.forms import OwnEmailForm
from recovery_ops.control.access.services.accounts import OWN, note_own_password, set_own_email
from recovery_ops.control.core.commands import CommandContext
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.preferences import zones
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.views.settings import UNPROCESSABLE, settings_page

_FIELDS = (
    ("theme", "Theme", (("", "As the system"), ("light", "Light"), ("dark", "Dark"))),
    ("contrast", "Contrast", (("", "As the system"), ("more", "High"))),
    ("motion", "Motion", (("", "As the system"), ("less", "None"))),
    ("density", "Rows", (("", "Comfortable"), ("compact", "Compact"))),
    ("keys", "Shortcuts", (("", "On"), ("off", "Off"))),
)
SHORTCUTS = (
    (
        "Everywhere",
        (("Ctrl K", "find pages and actions"), ("/", "the same"), ("?", "this list"), ("p", "pause or go on")),
    ),
    (
        "Go to: g, then",
        (
            ("o", "overview"),
            ("c", "capacity"),
            ("b", "breakers"),
            ("t", "timelines"),
            ("e", "escalations"),
            ("f", "failures"),
            ("r", "runs"),
            ("p", "policies"),
            ("a", "agents"),
            ("u", "audit"),
            ("s", "settings"),
        ),
    ),
    ("On a policy", (("Ctrl S", "save the proposal"), ("Ctrl Enter", "replay it on the last 24 hours"))),
    (
        "In a list",
        (
            ("j k", "next, previous"),
            ("J K", "select and next"),
            ("x", "choose"),
            ("Shift x", "select range"),
            ("o", "open"),
            ("Space", "preview beside the list"),
        ),
    ),
    (
        "Range: t, then",
        (
            ("← →", "earlier, later"),
            ("z", "twice as long"),
            ("n", "up to now"),
            ("a", "pin the range"),
        ),
    ),
    (
        "This page",
        (
            ("1 to 6", "a tile of the overview, a tab of a run"),
            ("[ ]", "previous and next item or range"),
            (".", "next change in a chart, next error"),
            ("+ -", "zoom a chart in and out"),
            ("← →", "move in a zoomed chart"),
            ("n", "a note on a time axis"),
            ("f c u", "trip, disable, clear override"),
            ("v", "saved views"),
            ("l", "copy its link"),
            ("Shift d", "compact or comfortable rows"),
        ),
    ),
)
"""What the keys do, as the help says it: groups of keys and words."""


def preferences(request: HttpRequest) -> HttpResponse:
    """The form of `look`, whole; and the keys."""
    context = {"fields": _FIELDS, "zones": zones(), "shortcuts": SHORTCUTS}
    return settings_page(request, "access/preferences", context, here="preferences")


def shortcuts(request: HttpRequest) -> HttpResponse:
    """The keys alone, also as a dialog."""
    return settings_page(request, "access/shortcuts", {"shortcuts": SHORTCUTS}, here="preferences")


@require_http_methods(["GET", "POST"])
def email(request: HttpRequest) -> HttpResponse:
    """Say where one is written to, or that one is not."""
    assert isinstance(request.user, User)  # noqa: S101  # views are closed to strangers
    form = OwnEmailForm(request.POST or None, initial={"email": request.user.email})
    if request.method == "POST" and form.is_valid():
        asked = CommandContext(by=actor_of(request), environment=EVERYWHERE, reason=OWN)
        set_own_email(request.user, **asked, email=form.cleaned_data["email"])
        told = "E-mail address saved." if request.user.email else "E-mail address deleted."
        return redirect_with_notice(request, reverse("preferences"), told)
    status = UNPROCESSABLE if request.method == "POST" else 200
    return settings_page(request, "access/own_email", {"form": form}, here="preferences", status=status)


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Change one's own password; other sessions end, this one goes on. The old one is not tried out."""
    assert isinstance(request.user, User)  # noqa: S101  # views are closed to strangers
    held_back: HttpResponse | None = None
    if request.method == "POST":
        held_back = consume_or_429(request, action="reauthenticate", user=request.user)
    if held_back is not None:
        return held_back
    form = PasswordChangeForm(request.user, request.POST or None)
    form.label_suffix = ""
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            form.save()
            note_own_password(request.user, by=actor_of(request))
        update_session_auth_hash(request, request.user)
        UserSession.objects.create_from_request(request)  # it goes on under a key of its own
        return redirect_with_notice(request, reverse("preferences"), "Password changed; other sessions ended.")
    status = UNPROCESSABLE if request.method == "POST" else 200
    return settings_page(request, "access/own_password", {"form": form}, here="preferences", status=status)
