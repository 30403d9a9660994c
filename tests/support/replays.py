"""Recorded calls and policies to replay."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from events.queries.recordings import Part, count_recorded, recordings
from recovery_ops.control.replay.comparison import Comparison
from recovery_ops.control.replay.recorded_calls import Listener
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import (
    CallsCounted,
    RunFinished,
)
from recovery_ops.rules.policy.model import BUILT_IN, document_of, parse_policy
from tests.support.recording import Studio

BUILT_IN_DOCUMENT = document_of(BUILT_IN)


def policy(operation: str = "search_web", fallbacks: list[str] | None = None, **settings: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": "mine", "scope": {"operation": operation}, "settings": settings}
    return {**BUILT_IN_DOCUMENT, "rules": [rule | ({} if fallbacks is None else {"fallbacks": fallbacks})]}


def compared(studio: Studio, new: dict[str, Any], old: dict[str, Any] = BUILT_IN_DOCUMENT) -> dict[str, Any]:
    """Everything that the studio did, decided again."""
    studio.store()
    return compared_again(studio, new, old)


def compared_again(studio: Studio, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """What is stored, decided under two policies."""
    start_us, end_us = int(studio.began_s * 1e6) - 1, int(studio.lab.clock.wall() * 1e6) + 1
    part = Part(environment="dev", start_us=start_us, end_us=end_us)
    found = Comparison(parse_policy(old), parse_policy(new))
    for speaker, told in recordings(part):
        found.add(Listener(speaker, studio.began_s, found.old.failures).listen(told))
    document = found.as_document()
    assert document["facts"] == count_recorded(part)
    return document


def call(studio: Studio, guarded: Any, source: str = "main_agent", pause_s: float = 1.0) -> None:
    with studio.lab.recovery.run(source=source), suppress(Exception):  # how it ended stands in the facts
        guarded()
    studio.rest(pause_s)


def endings(found: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(one["old"], one["new"]): one["calls"] for one in found["endings"]}


def spent(studio: Studio, *, cost_usd: float | None, tokens: int = 1000) -> None:
    """A model is asked three times and answers, and what it took is told as our library tells it."""
    model = studio.guard("model:primary", [503, 503, "ok"], kind="model", provider="openai")
    call(studio, model)
    own: dict[str, Any] = {"operation": "model:primary", "input_tokens": tokens * 2, "output_tokens": tokens}
    counted = CallsCounted(calls=1, attempts=3, successes=1, interval_s=10.0, **own)
    studio.tape.emit(counted)
    ended = RunFinished(
        status=RunStatus.SUCCEEDED, duration_s=1.0, input_tokens=2000, output_tokens=1000, cost_usd=cost_usd
    )
    studio.tape.emit(ended, run="run-1")
