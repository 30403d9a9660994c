"""What the tests of the documents share: the examples of the guide as modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.docs.generated import EXAMPLES
from tests.support.processes import ROOT


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import an example by the name of its file, as Python does when it is run; forgotten at the end of the test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for those that start processes
    yield importlib.import_module
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)
