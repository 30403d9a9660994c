"""Readiness: what is written to try it out is never kept."""

from __future__ import annotations

from django.contrib.sessions.models import Session

from recovery_ops.server.health import write_and_forget
from tests.support.engines import engine

__all__ = ["engine"]  # the fixture


def test_readiness_probe_that_wrote_keeps_nothing(engine: str) -> None:
    write_and_forget()
    assert not Session.objects.filter(session_key__startswith="readyz-").exists()
