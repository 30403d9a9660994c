"""What tests of intent share: a small fleet that has reported, so that its breakers are known."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.utils import timezone

from tests.control.cast import small_fleet
from tests.events.seeding import NOW


@pytest.fixture(autouse=True)
def _no_tries_before() -> None:
    """Tries of passwords are counted by account, and accounts of tests have the same numbers."""
    cache.clear()


@pytest.fixture
def known(db: None) -> None:
    """Three instances of research have reported search_web in `dev`."""
    small_fleet()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the views stands at the moment that the stories end."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)
