"""Long lists as files on the operator's command line, against a running console."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.exports import job
from recovery_ops.control.exports.models import Export
from tests.support.command_line import WHY, Operator, operator
from tests.support.told import untold

__all__ = ["operator"]  # the fixture


def test_a_file_is_asked_for_watched_fetched_and_called_off(operator: Operator, tmp_path: Path) -> None:
    assert operator.run("exports", "list") == cli.DONE
    [nothing] = operator.said
    assert operator.run("trip", "search_web", *WHY) == cli.DONE
    start = ("exports", "start", "audit", "--narrowed", "did=breaker.trip", "--column", "number", "--column", "what")
    assert operator.run(*start, "--dry-run") == cli.DONE
    assert untold(operator.said[0], "audit", "csv", "did=breaker.trip") == []
    assert not Export.objects.exists()
    assert operator.run(*start) == cli.DONE
    assert [untold(one, 1, "audit", "csv", "did=breaker.trip", "waiting", 0) for one in operator.said] == [[]]
    assert operator.run("exports", "list") == cli.DONE
    assert nothing not in operator.said
    kept = tmp_path / "audit.csv"
    assert operator.run("exports", "fetch", "1", "--to", str(kept)) == cli.REFUSED
    assert not kept.exists(), "what is refused leaves no file behind"
    job.start_next(now=timezone.now(), start=job.run)
    assert operator.run("exports", "show", "1") == cli.DONE
    [said] = operator.said
    assert (untold(said, "audit", "csv", "done"), re.findall(r"\d+", said)) == ([], ["1", "1", "1", "1"])
    assert operator.run("exports", "fetch", "1", "--to", str(kept)) == cli.DONE
    head, row = kept.read_text().splitlines()
    assert head.startswith('"number","what","http')
    assert row == '1,"breaker.trip"'
    assert operator.run("exports", "fetch", "1", "--to", str(kept)) == cli.REFUSED
    assert str(kept) in operator.said[0]
    assert kept.read_text().splitlines() == [head, row], "what is there already stays"
    assert operator.run("exports", "start", "escalations", "--format", "ndjson") == cli.DONE
    assert operator.run("exports", "cancel", "2") == cli.DONE
    assert Export.objects.get(number=2).state == "cancelled"
    assert operator.run("exports", "start", "runs") == cli.REFUSED


def test_range_of_an_export_arrives_whole(operator: Operator) -> None:
    end = timezone.now().replace(microsecond=0)
    start = end - timedelta(hours=2)
    assert operator.run("exports", "start", "runs", "--from", start.isoformat(), "--to", end.isoformat()) == cli.DONE
    assert [(one.start_at, one.end_at) for one in Export.objects.all()] == [(start, end)]
