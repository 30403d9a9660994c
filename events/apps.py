"""Tells Django about the store of facts, and Celery about Django."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "events"
    label = "events"
    verbose_name = "what happened"

    def ready(self) -> None:
        # `@shared_task` binds to the current Celery app, and `recovery_ops/__init__.py` has to stay empty for agents.
        import_module("recovery_ops.celery")
        # Tables of their own rooms; `events.models` cannot name them, because they build on it.
        import_module("events.capacity.models")
        import_module("events.deployments.models")
        import_module("events.open_parents")
        import_module("events.recoveries.models")
