"""A nearly full disk: readiness and intake give one answer."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from events.models import Fact
from events.store import disk
from recovery_ops.asgi import application
from tests.support import otlp
from tests.support.otlp import Door


def answers(door: Door) -> tuple[int, int]:
    """The status of `/readyz`, and of a request that brings an event."""

    async def exchange() -> tuple[int, int]:
        transport = httpx.ASGITransport(application)
        headers = {"authorization": f"Bearer {door.token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
            ready = await client.get("/readyz")
            taken = await client.post("/v1/logs", json=otlp.request(otlp.record()))
            return ready.status_code, taken.status_code

    return asyncio.run(exchange())


def test_full_disk_is_503_for_readiness_and_intake(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(disk, "LEAST_FREE_BYTES", 2**63)
        assert answers(door) == (503, 503)
    assert not Fact.objects.exists()
    assert answers(door) == (200, 200)
    assert Fact.objects.count() == 1
