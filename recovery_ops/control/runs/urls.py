"""The addresses of runs and failures."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse
from django.urls import URLPattern, path

from recovery_ops.control.issues.views import escalate as cause_asking
from recovery_ops.control.issues.views import issue as one_issue
from recovery_ops.control.issues.views import issues as failures
from recovery_ops.control.issues.views import triage
from recovery_ops.control.policies.views import unclassified
from recovery_ops.control.replay.views import golden
from recovery_ops.control.runs.views import aborts as run_aborting
from recovery_ops.control.runs.views import escalate as run_asking
from recovery_ops.control.runs.views import retries as run_retrying
from recovery_ops.control.runs.views import run, runs

Page = Callable[..., HttpResponse]


def pages(door: Callable[[Page], Page]) -> list[URLPattern]:
    """The pages, each behind a `door` that hands it the `environment` which the person may see."""
    return [
        path("failures", door(failures.failures), name="failures"),
        path("failures/act/escalate", door(cause_asking.ask), name="cause-ask"),
        path("failures/act/<str:verb>", door(triage.triage), name="triage"),
        path("failures/unclassified", door(unclassified.unclassified), name="unclassified"),
        path("failures/unclassified/<name:fingerprint>", door(unclassified.cause), name="unclassified-cause"),
        path("failures/<name:fingerprint>", door(one_issue.failure), name="failure"),
        path("runs", door(runs.runs_list), name="runs"),
        path("runs/act/ask", door(run_asking.ask_many), name="runs-ask"),
        path("runs/act/abort", door(run_aborting.abort_many), name="runs-abort"),
        path("runs/act/retry", door(run_retrying.retry_many), name="runs-retry"),
        path("runs/<name:run>/golden", door(golden.mark), name="golden-mark"),
        path("runs/<name:run>/ask", door(run_asking.ask), name="run-ask"),
        path("runs/<name:run>/abort", door(run_aborting.abort), name="run-abort"),
        path("runs/<name:run>/withdraw-abort", door(run_aborting.withdraw), name="run-withdraw-abort"),
        path("runs/<name:run>/retry", door(run_retrying.retry), name="run-retry"),
        path("runs/<name:run>/withdraw-retry", door(run_retrying.withdraw), name="run-withdraw-retry"),
        path("runs/<name:run>", door(run.one_run), name="run"),
    ]
