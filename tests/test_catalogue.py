"""The catalogue of events is complete and up to date."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from recovery_ops.rules.events import ALL_EVENTS
from recovery_ops.wire.catalogue import BRIEFS, catalogue

pytestmark = pytest.mark.quick

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_page_is_what_the_table_says() -> None:
    assert (DOCS / "events.md").read_text(encoding="utf-8") == catalogue(), (
        "run: python -m recovery_ops.wire.catalogue > docs/events.md"
    )


def test_every_field_has_a_meaning_and_no_meaning_is_left_over() -> None:
    assert set(BRIEFS) == {field.name for kind in ALL_EVENTS for field in fields(kind)}
