"""Tells Django about what people want."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class ControlConfig(AppConfig):
    name = "recovery_ops.control"
    label = "control"
    verbose_name = "what people want"

    def ready(self) -> None:
        import_module("recovery_ops.control.beats").follow()
        import_module("recovery_ops.control.sign_in.signals").follow()
