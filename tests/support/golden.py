"""Golden runs: kept with what deciding them again needs, tried by every proposal, changed only where that is meant."""

from __future__ import annotations

import pytest

from events.models import Fact
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, call

MUST = "answered at the third attempt"


@pytest.fixture
def run(db: None) -> str:
    """A run whose call was answered at the third attempt, among others of its instance."""
    studio = Studio(BUILT_IN_DOCUMENT)
    for outcomes in (["ok"], [503, 503, "ok"], [404]):
        call(studio, studio.guard("search_web", outcomes))
    studio.store()
    runs = Fact.objects.filter(event="attempt_succeeded").values_list("run", flat=True)
    return str(runs[0])
