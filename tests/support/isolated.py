"""Parts of a test that leave nothing in the database for the next part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


@contextmanager
def rolled_back() -> Iterator[None]:
    """Undo what is written inside: a loop over many cases needs its fixtures once, and each case finds them as made."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
