"""Whether people can come in by single sign-on: what the settings say, and what the provider answers to a test."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from recovery_ops.control.access.sign_in.oidc_discovery import Finding, look_at
from recovery_ops.control.core.views.settings import require, settings_page
from recovery_ops.server.oidc_environment import Provider


@require_http_methods(["GET", "POST"])
def issuer(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What is set up; a POST asks the provider, and changes nothing."""
    require(request, "manage_accounts", environment)
    known: Provider | None = settings.SINGLE_SIGN_ON
    findings: list[Finding] = look_at(known) if known is not None and request.method == "POST" else []
    context = {
        "known": known,
        "findings": findings,
        "is_fit": bool(findings) and all(one.is_good is not False for one in findings),
        "grants": sorted((group, sorted(held)) for group, held in known.roles.items()) if known is not None else [],
    }
    return settings_page(request, "access/issuer", context, here="people")
