"""The task app that every `tasks.py` binds to."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")

app = Celery("recovery_ops", task_cls="recovery_ops.server.coalesced_tasks:Look")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
