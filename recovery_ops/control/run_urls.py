"""The addresses of runs and failures."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse
from django.urls import URLPattern, path

from recovery_ops.control import addresses  # noqa: F401  # `fingerprint` in addresses
from recovery_ops.control.views import (
    cause_asking,
    failures,
    golden,
    run,
    run_aborting,
    run_asking,
    run_retrying,
    runs,
    triage,
    unclassified,
)

Page = Callable[..., HttpResponse]


def pages(door: Callable[[Page], Page]) -> list[URLPattern]:
    """The pages, each behind a `door` that hands it the `environment` which the person may see."""
    return [
        path("failures", door(failures.failures), name="failures"),
        path("failures/act/escalate", door(cause_asking.ask), name="cause-ask"),
        path("failures/act/<str:verb>", door(triage.triage), name="triage"),
        path("failures/unclassified", door(unclassified.unclassified), name="unclassified"),
        path("failures/unclassified/<fingerprint:fingerprint>", door(unclassified.cause), name="unclassified-cause"),
        path("failures/<fingerprint:fingerprint>", door(failures.failure), name="failure"),
        path("runs", door(runs.runs_list), name="runs"),
        path("runs/act/ask", door(run_asking.ask_many), name="runs-ask"),
        path("runs/act/abort", door(run_aborting.abort_many), name="runs-abort"),
        path("runs/act/retry", door(run_retrying.retry_many), name="runs-retry"),
        path("runs/<path:run>/golden", door(golden.mark), name="golden-mark"),
        path("runs/<path:run>/ask", door(run_asking.ask), name="run-ask"),
        path("runs/<path:run>/abort", door(run_aborting.abort), name="run-abort"),
        path("runs/<path:run>/withdraw-abort", door(run_aborting.withdraw), name="run-withdraw-abort"),
        path("runs/<path:run>/retry", door(run_retrying.retry), name="run-retry"),
        path("runs/<path:run>/withdraw-retry", door(run_retrying.withdraw), name="run-withdraw-retry"),
        path("runs/<path:run>", door(run.one_run), name="run"),
    ]
