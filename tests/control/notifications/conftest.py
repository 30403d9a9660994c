"""What tests of notifications share: a receiver that the setting allows, and channels that lead to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.webhook_receiver import Receiver, receiver


@pytest.fixture
def inbox(settings: Any) -> Iterator[Receiver]:
    """A receiver on this machine, which the setting names."""
    with receiver() as made:
        settings.NOTIFY_HOSTS = [made.host]
        yield made
