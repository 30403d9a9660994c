"""Who is looking: sign-in, and how the page looks to them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from recovery_ops.control.templatetags.console import THEME_COOKIE, THEMES
from recovery_ops.control.views.answers import see_other

_YEAR_S = 365 * 24 * 3600


class SignInForm(AuthenticationForm):
    """A name and a password; which of the two was wrong is nobody's business."""

    error_messages = {
        "invalid_login": "Name and password do not fit together. Both are case-sensitive.",
        "inactive": "Name and password do not fit together. Both are case-sensitive.",
    }


class SignIn(LoginView):
    """The door. A refused try is 422 and keeps the name that was typed."""

    template_name = "control/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_invalid(self, form: Any) -> TemplateResponse:
        return TemplateResponse(self.request, self.template_name, self.get_context_data(form=form), status=422)


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Remember the theme in a cookie, for browsers without script; anything but light and dark is up to the system."""
    answer = see_other(local_address(request, request.POST.get("next", "")))
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        answer.set_cookie(THEME_COOKIE, chosen, max_age=_YEAR_S, samesite="Lax", secure=settings.TLS)
    else:
        answer.delete_cookie(THEME_COOKIE, samesite="Lax")
    return answer


def local_address(request: HttpRequest, address: str) -> str:
    """The address if it leads to this console, else the overview."""
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if is_ours else "/"
