"""The command line acts on the same small fleet as the console's tests."""

from __future__ import annotations

from tests.control.conftest import _nobody_of_another_test, known, now

__all__ = ["_nobody_of_another_test", "known", "now"]
