"""Tells Django about what people want."""

from __future__ import annotations

from django.apps import AppConfig


class ControlConfig(AppConfig):
    name = "recovery_ops.control"
    label = "control"
    verbose_name = "what people want"
