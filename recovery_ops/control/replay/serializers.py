"""Replays and golden runs as JSON."""

from __future__ import annotations

from recovery_ops.control.core.serializers import Document, register_result, utc_text
from recovery_ops.control.replay.models.golden import GoldenCase, GoldenResult
from recovery_ops.control.replay.models.replays import Replay


def golden_document(one: GoldenCase) -> Document:
    """A run that proposals are tried on, without its facts."""
    return {
        "number": one.number,
        "name": one.name,
        "must": one.must,
        "run": one.run,
        "service": one.service,
        "instance": one.instance,
        "by": one.by,
        "created_at": utc_text(one.created_at),
        "retired_at": utc_text(one.retired_at),
    }


def golden_result_document(one: GoldenResult) -> Document:
    """What a proposal does to a golden run."""
    named = {"number": one.case.number, "name": one.case.name, "must": one.case.must}
    return named | {"is_same": one.is_same, "difference": one.difference}


def replay_document(one: Replay) -> Document:
    """A replay and how far it has come, without its documents and its result."""
    return {
        "number": one.number,
        "state": one.state,
        "proposal": None if one.proposal is None else one.proposal.number,
        "edition": one.edition,
        "old_version": one.old_version,
        "start": utc_text(one.start_at),
        "end": utc_text(one.end_at),
        "service": one.service,
        "operation": one.operation,
        "by": one.by,
        "asked_at": utc_text(one.asked_at),
        "started_at": utc_text(one.started_at),
        "finished_at": utc_text(one.finished_at),
        "read_facts": one.read_facts,
        "done_facts": one.done_facts,
        "total_facts": one.total_facts,
        "problem": one.problem,
    }


register_result(Replay, "replay", replay_document)
register_result(GoldenCase, "golden", golden_document)
