"""The map of addresses that Django answers; `asgi.py` says which never reach it."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("recovery_ops.control.urls")),  # it mounts the pages of `events`, too: it knows who may look
]
handler400 = "recovery_ops.control.core.errors.malformed"
handler403 = "recovery_ops.control.core.errors.refused"
handler404 = "recovery_ops.control.core.errors.missing"
handler500 = "recovery_ops.control.core.errors.failed"
