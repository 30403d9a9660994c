"""Tells Django about what people want."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class ControlConfig(AppConfig):
    name = "recovery_ops.control"
    label = "control"
    verbose_name = "what people want"

    def ready(self) -> None:
        import_module("recovery_ops.control.addresses")  # the converters of every path
        import_module("recovery_ops.control.beats").follow()
        if settings.OTLP_EXPORT_URL:  # OpenTelemetry is loaded only where somebody listens
            import_module("recovery_ops.control.own.telemetry").follow()
        import_module("recovery_ops.control.sign_in.signals").follow()
