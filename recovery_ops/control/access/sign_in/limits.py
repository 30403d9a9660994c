"""Count of failed attempts to sign in, per client address."""

from __future__ import annotations

from allauth.account.adapter import get_adapter
from allauth.core.internal import ratelimit
from django.http import HttpRequest

TOO_MANY = "too_many_login_attempts"


def count_attempt(request: HttpRequest) -> ratelimit.RateLimitUsage:
    """Count an attempt for its address; `rollback()` takes it back. Raises ValidationError above the limit."""
    usage = ratelimit.consume(request, app="allauth.account", action="address")
    if usage is None:
        raise get_adapter(request).validation_error(TOO_MANY)
    return usage
