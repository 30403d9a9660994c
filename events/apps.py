"""Tells Django about the store of facts, and Celery about Django."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


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
        import_module("events.issues.models")
        import_module("events.derived.open_parents")
        import_module("events.recoveries.models")
        import_module("events.runs.models")
        schema = import_module("events.store.schema")
        pre_migrate.connect(schema.check_schema, sender=self, dispatch_uid="check_schema")
        post_migrate.connect(schema.stamp_schema, sender=self, dispatch_uid="stamp_schema")
