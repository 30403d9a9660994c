"""The machines' door to runs: list them, read one, ask a person about one, have one end or begin again."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.runs.asking import PAGE, Show, run_of, runs
from events.runs.behind import with_outages
from events.runs.narrowing import ASKS as NARROWED_BY
from events.runs.narrowing import faults_in
from events.runs.records import RECORDS_MOST
from events.runs.rows import LOST, RunStory
from recovery_ops.control.actions.aborting import abort_run, held_abort, withdraw_abort
from recovery_ops.control.actions.raising import raise_about
from recovery_ops.control.actions.retrying import retry_run, withdraw_retry
from recovery_ops.control.actions.showing import show_facts
from recovery_ops.control.api.capacity import RANGE, range_of
from recovery_ops.control.api.paging import asked_for, next_page, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.cursors import cursor_of
from recovery_ops.control.documents import escalations as documents_escalations
from recovery_ops.control.documents import runs as documents_runs
from recovery_ops.control.escalations.in_runs import asked_by, with_answers
from recovery_ops.control.exporting.runs import asked_of
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.control.retried import retry_told
from recovery_ops.control.standings import reporting_in, standing_of


class Runs(Api):
    """`GET /api/v1/runs`: runs that a fact in a range names, newest first.

    `operation`, `breaker`, `fingerprint` and `outage` are those of a failure and narrow runs that met one, which are
    shown without `show`.
    A page may hold fewer than `limit`, or none, while `next` goes on: so many runs are looked through for each.
    """

    asks = (
        paged(PAGE)
        | RANGE
        | {
            "show": f"one of {', '.join(Show)} ({Show.TROUBLED})",
            "operation": "only runs in which this operation failed",
            "breaker": "only runs in which this breaker's calls failed",
            "fingerprint": "only runs that met this cause",
            "outage": "only runs that met this capacity event, as 12 or CE-12",
        }
        | NARROWED_BY
    )

    def get(self, request: Request) -> Response:
        now, asked = timezone.now(), request.query_params
        start, end = range_of(request, now)
        show = asked.get("show", Show.TROUBLED)
        limit, after = asked_for(request, (int,), most=PAGE)
        if show not in set(Show):
            raise Refused("invalid", f"show is one of {', '.join(Show)}.", fields={"show": "is not known"})
        if faults := faults_in(asked):
            name, has_to_be = next(iter(faults.items()))
            raise Refused("invalid", f"{name} {has_to_be}.", fields=faults)
        found = runs(
            self.environment,
            start=start,
            end=end,
            before_us=None if after is None else int(after[0]),
            most=limit,
            now=now,
            **asked_of(self.environment, asked),
        )
        reporting = reporting_in(self.environment, found.rows, now)
        rows = [documents_runs.of_run(one, standing_of(one, now, reporting).word, now) for one in found.rows]
        cursor = "" if found.older_us is None else cursor_of((found.older_us,))
        further = next_page(request, cursor, span=(start, end))
        return Response({"environment": self.environment, "runs": rows, "next": further})


class RunOf(Api):
    """`GET /api/v1/runs/<run>`: one run, step by step."""

    def get(self, request: Request, run: str) -> Response:
        told, now = _found(self.environment, run), timezone.now()
        standing = standing_of(told, now, reporting_in(self.environment, [told], now))
        answered = with_answers(told, asked_by(self.environment, told))
        story = with_outages(answered, self.environment, now, is_lost=standing.word == LOST)
        answer = {
            "environment": self.environment,
            "run": documents_runs.of_run(story, standing.word, now),
            "abort": documents_runs.of_abort(held_abort(self.environment, run, now)),
            "retry": documents_runs.of_retry_told(retry_told(self.environment, story, now)),
            "steps": documents_runs.of_steps(story),
        }
        return Response(answer)


class ShowFacts(Api):
    """`POST /api/v1/runs/<run>/show`: the facts of a run, with all that was sent. Who looked is in the audit log."""

    takes = {"POST": Takes({}, needed=())}

    def post(self, request: Request, run: str) -> Response:
        self.body(request)
        records = show_facts(by=self.actor, environment=self.environment, run=run)
        facts = [documents_runs.of_record(one) for one in records[:RECORDS_MOST]]
        return Response({"environment": self.environment, "run": run, "facts": facts})


class AskAbout(Api):
    """`POST /api/v1/runs/<run>/ask`: ask the queue `queue` about a run; the reason is the question.

    While that question is open, the same run asks that queue no second one. The run does not wait for the answer.
    """

    takes = {"POST": Takes(WHY | {"queue": str}, needed=("reason", "queue"))}

    def post(self, request: Request, run: str) -> Response:
        body = self.body(request)
        asked = self.asked(request, body)
        done = raise_about(**asked, run=run, queue=body["queue"])
        return Response(documents_escalations.of_done(done, timezone.now()))


class AbortRun(Api):
    """`POST /api/v1/runs/<run>/abort`: have a run called off by its agent, also when it begins again.

    409 for one that has ended. Whether it was called off is told by the run itself (`standing`).
    """

    takes = {"POST": Takes(WHY, needed=("reason",))}

    def post(self, request: Request, run: str) -> Response:
        done = abort_run(**self.asked(request, self.body(request)), run=run)
        return Response(documents_runs.of_aborted(done))


class WithdrawAbort(Api):
    """`POST /api/v1/runs/<run>/withdraw-abort`: who begins it again may. What was called off stays so."""

    takes = {"POST": Takes(WHY, needed=("reason",))}

    def post(self, request: Request, run: str) -> Response:
        done = withdraw_abort(**self.asked(request, self.body(request)), run=run)
        return Response(documents_runs.of_aborted(done))


class RetryRun(Api):
    """`POST /api/v1/runs/<run>/retry`: have a run begun again from its checkpoint, by its agent.

    `input` (text or JSON as text, 16 kB) takes the place of what it had; `instance` is by default its own, or the best
    that is there. 409 for a run that goes on or came to its end, and where nobody is there who begins it again. Whether
    it has begun is told by `GET /api/v1/runs/<run>` (`retry.told`).
    """

    takes = {"POST": Takes(WHY | {"input": str, "instance": str}, needed=("reason",))}

    def post(self, request: Request, run: str) -> Response:
        body = self.body(request)
        more = {"input": body.get("input", ""), "instance": body.get("instance", "")}
        return Response(documents_runs.of_retried(retry_run(**self.asked(request, body), run=run, **more)))


class WithdrawRetry(Api):
    """`POST /api/v1/runs/<run>/withdraw-retry`: who has not heard it does not begin it. What was begun goes on."""

    takes = {"POST": Takes(WHY, needed=("reason",))}

    def post(self, request: Request, run: str) -> Response:
        done = withdraw_retry(**self.asked(request, self.body(request)), run=run)
        return Response(documents_runs.of_retried(done))


def _found(environment: str, run: str) -> RunStory:
    story = run_of(environment, run) if run.isprintable() and len(run) <= 200 else None
    if story is None:
        raise Refused("unknown_run", f"No fact in {environment} carries the run {run[:80]}.", status=UNKNOWN)
    return story
