"""How a process that decides begins: apart, because everything else here wants a Django that is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Under what is decided: the policy that the recordings are taken to have run under, the proposed one, and from
    when on they tell."""

    old: Mapping[str, Any]
    new: Mapping[str, Any]
    old_version: str
    start_s: float


def begin_process(under: Documents) -> None:
    """Set up Django, then say under which documents this process decides."""
    import django

    django.setup()
    from recovery_ops.control.replay.processes import begin

    begin(under)
