"""How a process that decides begins: apart, because everything else here wants a Django that is set up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def begin_process(old: Mapping[str, Any], new: Mapping[str, Any], old_version: str) -> None:
    """Set up Django, then say under which documents this process decides."""
    import django

    django.setup()
    from recovery_ops.control.replay.sharing import begin

    begin(old, new, old_version)
