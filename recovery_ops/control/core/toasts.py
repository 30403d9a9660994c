"""Where the notice of what was done waits for the next page: a signed cookie of ours, the session for a long one."""

from __future__ import annotations

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage


class _Cookie(CookieStorage):
    cookie_name = f"{settings.COOKIE_PREFIX}notices"


class Notices(FallbackStorage):
    """Django's own, under a name that nobody else's console on this host has."""

    storage_classes = (_Cookie, SessionStorage)
