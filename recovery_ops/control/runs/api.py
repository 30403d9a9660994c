"""The machines' door to runs: list them, read one, ask a person about one, have one end or begin again."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.runs.behind import with_outages
from events.runs.narrowing import ASKS as NARROWED_BY
from events.runs.narrowing import faults_in
from events.runs.records import RECORDS_MOST
from events.runs.rows import LOST, RunStory
from events.runs.selectors import Show, run_of
from recovery_ops.control.audit.guarded_content import show_facts
from recovery_ops.control.capacity.api import RANGE, range_of
from recovery_ops.control.core.api.pagination import asked_for, next_page, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.cursors import cursor_of
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.escalations import serializers as documents_escalations
from recovery_ops.control.escalations.selectors.run_answers import asked_by, with_answers
from recovery_ops.control.escalations.services.raising import raise_about
from recovery_ops.control.runs import serializers as documents_runs
from recovery_ops.control.runs.export import run_list_of
from recovery_ops.control.runs.retry_status import retry_told
from recovery_ops.control.runs.services.aborts import abort_run, held_abort, withdraw_abort
from recovery_ops.control.runs.services.retries import retry_run, withdraw_retry
from recovery_ops.control.runs.status import reporting_in, standing_of


class Runs(ApiView):
    """`GET /api/v1/runs`: runs with an event before the end of a range and one after its start, newest start first.

    `operation`, `breaker`, `fingerprint` and `outage` are those of a failure and narrow runs that met one, which are
    shown without `show`.
    """

    asks = (
        paged()
        | RANGE
        | {
            "show": f"one of {', '.join(Show)} ({Show.TROUBLED})",
            "operation": "only runs with failures of this operation",
            "breaker": "only runs with failures of this breaker",
            "fingerprint": "only runs with failures of this issue",
            "outage": "only runs in this incident, as 12 or CE-12",
        }
        | NARROWED_BY
    )

    def get(self, request: Request) -> Response:
        now, asked = timezone.now(), request.query_params
        start, end = range_of(request, now)
        show = asked.get("show", Show.TROUBLED)
        limit, after = asked_for(request, (int, int))
        if show not in set(Show):
            raise CommandRejected(
                "invalid", f"show is unknown; use one of {', '.join(Show)}.", fields={"show": "is unknown"}
            )
        if faults := faults_in(asked):
            name, has_to_be = next(iter(faults.items()))
            raise CommandRejected("invalid", f"{name} {has_to_be}.", fields=faults)
        listed = run_list_of(self.environment, asked, start=start, end=end, now=now)
        found = listed.page(None if after is None else (int(after[0]), int(after[1])), limit)
        reporting = reporting_in(self.environment, found.rows, now)
        rows = [documents_runs.run_document(one, standing_of(one, now, reporting).word, now) for one in found.rows]
        cursor = "" if found.further is None else cursor_of(found.further)
        further = next_page(request, cursor, span=(start, end))
        return Response({"environment": self.environment, "runs": rows, "next": further})


class RunOf(ApiView):
    """`GET /api/v1/runs/<run>`: one run, step by step."""

    def get(self, request: Request, run: str) -> Response:
        told, now = _found(self.environment, run), timezone.now()
        standing = standing_of(told, now, reporting_in(self.environment, [told], now))
        answered = with_answers(told, asked_by(self.environment, told))
        story = with_outages(answered, self.environment, now, is_lost=standing.word == LOST)
        answer = {
            "environment": self.environment,
            "run": documents_runs.run_document(story, standing.word, now),
            "abort": documents_runs.abort_document(held_abort(self.environment, run, now)),
            "retry": documents_runs.retry_status_document(retry_told(self.environment, story, now)),
            "steps": documents_runs.workflow_steps_document(story),
        }
        return Response(answer)


class ShowFacts(ApiView):
    """`POST /api/v1/runs/<run>/show`: the facts of a run, with all that was sent. Who looked is in the audit log."""

    takes = {"POST": BodySpec({}, needed=())}

    def post(self, request: Request, run: str) -> Response:
        self.body(request)
        records = show_facts(by=self.actor, environment=self.environment, run=run)
        facts = [documents_runs.run_event_document(one) for one in records[:RECORDS_MOST]]
        return Response({"environment": self.environment, "run": run, "facts": facts})


class AskAbout(ApiView):
    """`POST /api/v1/runs/<run>/ask`: ask the queue `queue` about a run; the reason is the question.

    While that question is open, the same run asks that queue no second one. The run does not wait for the answer.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"queue": str}, needed=("queue",))}

    def post(self, request: Request, run: str) -> Response:
        body = self.body(request)
        asked = self.asked(request, body)
        done = raise_about(**asked, run=run, queue=body["queue"])
        return Response(documents_escalations.response_document(done, timezone.now()))


class AbortRun(ApiView):
    """`POST /api/v1/runs/<run>/abort`: have a run called off by its agent, also when it begins again.

    409 for one that has ended. Whether it was called off is told by the run itself (`standing`).
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, run: str) -> Response:
        done = abort_run(**self.asked(request, self.body(request)), run=run)
        return Response(documents_runs.abort_result_document(done))


class WithdrawAbort(ApiView):
    """`POST /api/v1/runs/<run>/withdraw-abort`: who begins it again may. What was called off stays so."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, run: str) -> Response:
        done = withdraw_abort(**self.asked(request, self.body(request)), run=run)
        return Response(documents_runs.abort_result_document(done))


class RetryRun(ApiView):
    """`POST /api/v1/runs/<run>/retry`: have a run begun again from its checkpoint, by its agent.

    `input` (text or JSON as text, 16 kB) takes the place of what it had; `instance` is by default its own, or the best
    that is there. 409 for a run that goes on or came to its end, and where nobody is there who begins it again. Whether
    it has begun is told by `GET /api/v1/runs/<run>` (`retry.told`).
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"input": str, "instance": str})}

    def post(self, request: Request, run: str) -> Response:
        body = self.body(request)
        more = {"input": body.get("input", ""), "instance": body.get("instance", "")}
        return Response(documents_runs.retry_result_document(retry_run(**self.asked(request, body), run=run, **more)))


class WithdrawRetry(ApiView):
    """`POST /api/v1/runs/<run>/withdraw-retry`: who has not heard it does not begin it. What was begun goes on."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, run: str) -> Response:
        done = withdraw_retry(**self.asked(request, self.body(request)), run=run)
        return Response(documents_runs.retry_result_document(done))


def _found(environment: str, run: str) -> RunStory:
    story = run_of(environment, run) if run.isprintable() and len(run) <= 200 else None
    if story is None:
        raise CommandRejected("unknown_run", f"Run {run[:80]} does not exist in {environment}.", status=NOT_FOUND)
    return story
