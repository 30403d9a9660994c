"""What tests of intent share: a small fleet that has reported, so that its breakers are known."""

from __future__ import annotations

import pytest

from tests.control.cast import small_fleet


@pytest.fixture
def known(db: None) -> None:
    """Three instances of research have reported search_web in `dev`."""
    small_fleet()
