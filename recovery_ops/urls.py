"""The map of addresses that Django answers; `asgi.py` says which never reach it."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("events.urls")),
    path("", include("recovery_ops.control.urls")),
]
