"""What each environment hides beside what is hidden anyway, kept where intake can read it.

Whoever releases a policy keeps its section `masking` here; nothing here asks who that was. Read at most each `CACHE_S`
seconds and process, and where it cannot be read the request waits: nothing is stored that was not looked at.
"""

from __future__ import annotations

import threading
import time

from django.db import transaction

from events.ingest.cleaning import Cleaner, cleaner_for
from events.live.giving_back import give_back
from events.models import HiddenTexts
from recovery_ops.rules.policy.masking_rules import Masking, masking_document, parse_masking
from recovery_ops.rules.policy.settings import Problem

CACHE_S = 2.0
"""What was released is obeyed on arrival within this time, in every process."""
_lock = threading.Lock()
_read: dict[str, tuple[Cleaner, float]] = {}


def cleaner_of(environment: str) -> Cleaner:
    """What cleans texts of this environment now. One query where it was not asked lately; raises as Django does."""
    known = _read.get(environment)
    if known is not None and time.monotonic() - known[1] < CACHE_S:
        return known[0]
    began = time.monotonic()
    try:
        kept = HiddenTexts.objects.filter(environment=environment).values_list("section", flat=True).first()
    finally:
        give_back()
    problems: list[Problem] = []
    cleaner = cleaner_for(parse_masking(kept, "masking", problems))
    if problems:
        raise ValueError(f"what {environment} hides cannot be read: {problems}")
    with _lock:
        _read[environment] = (cleaner, began)
    return cleaner


def keep_masking(environment: str, masking: Masking) -> None:
    """What is hidden from now on, of what arrives from now on."""
    HiddenTexts.objects.update_or_create(environment=environment, defaults={"section": masking_document(masking)})
    transaction.on_commit(forget_masking)


def forget_masking() -> None:
    """Read it anew at its next use, in this process."""
    with _lock:
        _read.clear()
