"""Tells Django about what people want."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings

ROOMS = (
    *(
        "access",
        "agents",
        "approvals",
        "audit",
        "breakers",
        "capacity",
        "dashboard",
        "escalations",
        "exports",
        "issues",
    ),
    *("demonstration", "notifications", "policies", "replay", "runbooks", "runs", "self_monitoring"),
)
"""Rooms with actions of their own."""


class ControlConfig(AppConfig):
    name = "recovery_ops.control"
    label = "control"
    verbose_name = "what people want"

    def ready(self) -> None:
        import_module("recovery_ops.control.core.url_converters")  # the converters of every path
        for room in ROOMS:
            import_module(f"recovery_ops.control.{room}.actions")
        access = import_module("recovery_ops.control.access.core_port")
        import_module("recovery_ops.control.core.environment").connect_access(access)
        import_module("recovery_ops.control.core.task_heartbeats").follow()
        if settings.OTLP_EXPORT_URL:  # OpenTelemetry is loaded only where somebody listens
            import_module("recovery_ops.control.self_monitoring.telemetry").follow()
        import_module("recovery_ops.control.access.sign_in.signals").follow()
