"""What tests of intent share: a small fleet that has reported, so that its breakers are known."""

from __future__ import annotations

import pytest
from django.utils import timezone

from events.capacity.hits import forget_floods
from events.ingest.reporters import reporters
from tests.support.actions import small_fleet
from tests.support.stories import NOW


@pytest.fixture(autouse=True)
def _nobody_of_another_test() -> None:
    """Who tells failures by itself is remembered by name, and so are floods: the store is another now."""
    reporters.forget()
    forget_floods()


@pytest.fixture
def known(db: None) -> None:
    """Three instances of research have reported search_web in `dev`."""
    small_fleet()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the views stands at the moment that the stories end."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)
