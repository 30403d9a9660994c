"""The machines' door to causes of failures: list them, decide about one or many, and say which are one."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from events.failures.asking import fingerprints, in_words, read_failures, with_reach
from events.failures.mixing import Ending, Mix, mixes
from events.failures.rows import PLACE, Fingerprint
from recovery_ops.control.capacity.api import RANGE, range_of
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.commands import CommandResult, require_permission
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.serializers import Document
from recovery_ops.control.escalations import serializers as documents_escalations
from recovery_ops.control.escalations.selectors.by_issue import open_questions
from recovery_ops.control.escalations.services.raising import raise_about_cause
from recovery_ops.control.issues.models import FailureGrouping, FailureNote
from recovery_ops.control.issues.selectors import (
    Standing,
    cases_of,
    grouping_of,
    groupings_in_force,
    noted_by_cause,
    notes_on,
    standing_of,
)
from recovery_ops.control.issues.services.issues import (
    ACTS,
    LEAST_ARCHIVE_S,
    LONGEST_ARCHIVE_S,
    Result,
    merge_failures,
    require_known,
    split_failure,
    triage_each,
    undo_grouping,
)
from recovery_ops.control.issues.services.notes import note_on_cause
from recovery_ops.control.issues.services.regrouping import (
    PERMISSION,
    Preview,
    changed_rule,
    edit_grouping,
    preview_of,
    require_editor,
)

BULK_MOST = 200
STATES = ("open", "pending", "regressed", "returned", "archived", "resolved")
_FIELDS: dict[str, type] = {
    "to": str,
    "for_s": float,
    "more": int,
    "escalating": bool,
    "next_version": bool,
    "clean_runs": int,
}
_DESCRIBED = {
    "for_s": {
        "type": "number",
        "minimum": LEAST_ARCHIVE_S,
        "maximum": LONGEST_ARCHIVE_S,
        "description": "Duration of the archive period in seconds.",
    }
}


class Failures(ApiView):
    """`/api/v1/failures`: GET the causes in a range, the most frequent first; POST one `verb` for each `fingerprint`.

    `total` is how many causes there are on all pages. Counts are of all failures in the range, but for `became`, which
    is of the newest 20 runs, and `runs`, of which 10,000 are counted.

    A POST answers with a result for each: `done`, or the `problem` that stopped this one and no other.
    """

    asks = paged() | RANGE | {"state": f"one of {', '.join(STATES)}"}
    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | {"verb": str, "fingerprints": list} | _FIELDS,
            needed=("verb", "fingerprints"),
            described=_DESCRIBED,
        )
    }

    def get(self, request: Request) -> Response:
        now = timezone.now()
        start, end = range_of(request, now)
        state = request.query_params.get("state", "")
        if state and state not in STATES:
            raise CommandRejected(
                "invalid", f"state is unknown; use one of {', '.join(STATES)}.", fields={"state": "is unknown"}
            )
        grouping = grouping_of(self.environment)
        span: dict[str, Any] = {"start": start, "end": end}
        sample = grouping.of(read_failures(self.environment, **span, has_bins=False))
        found = fingerprints(sample, **span, before=None)
        cases = cases_of(self.environment)
        every = [(one, standing_of(cases.get(one.fingerprint), last=one.last, now=now)) for one in found]
        wanted = [(one, how) for one, how in every if state in ("", how.state)]
        rows, further = page_of(request, wanted, lambda row: row[0].place, PLACE, span=(start, end))
        shown = in_words(self.environment, sample, [one for one, _ in rows])
        shown = with_reach(self.environment, sample, shown, **span)
        asked, noted = open_questions(self.environment, grouping), noted_by_cause(self.environment, grouping)
        became = mixes(self.environment, sample, [one.fingerprint for one in shown], **span)
        return Response(
            {
                "environment": self.environment,
                "read_from": start.isoformat(),
                "is_partial": False,
                "total": len(wanted),
                "failures": [
                    _of_failure(one, how, became[one.fingerprint], asked.about(one)) | {"notes": noted[one.fingerprint]}
                    for one, (_, how) in zip(shown, rows, strict=True)
                ],
                "next": further,
                "groupings": [_of_grouping(one) for one in groupings_in_force(self.environment)],
            }
        )

    def post(self, request: Request) -> Response:
        body = self.body(request)
        verb, names = body["verb"], _names(body["fingerprints"], least=1)
        if verb not in ACTS:
            raise CommandRejected(
                "invalid", f"verb is unknown; use one of {', '.join(ACTS)}.", fields={"verb": "is unknown"}
            )
        asked = self.asked(request, body)
        version = asked.pop("seen", None) if len(names) == 1 else None
        rest: dict[str, Any] = {name: body[name] for name in _FIELDS if name in body}
        results = triage_each(
            verb,
            names,
            by=asked["by"],
            environment=self.environment,
            key=asked.get("key"),
            reason=asked["reason"],
            dry_run=asked.get("dry_run", False),
            version=version,
            **rest,
        )
        refused = sum(one.rejection is not None for one in results)
        return Response(
            {"environment": self.environment, "results": [_of_result(one) for one in results], "refused": refused}
        )


class EscalateFailure(ApiView):
    """`POST /api/v1/failures/escalate`: ask the queue `queue` the `question` about a cause; nobody's run waits for it.

    While a question about the cause is open there is no second one: it is answered with, as `was_already`. Without a
    `severity` it is the one that the policy gives to questions.
    """

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | {"fingerprint": str, "queue": str, "question": str, "severity": str},
            needed=("fingerprint", "queue", "question"),
        )
    }

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = raise_about_cause(
            **self.asked(request, body),
            fingerprint=body["fingerprint"],
            queue=body["queue"],
            question=body["question"],
            severity=body.get("severity", ""),
        )
        return Response(documents_escalations.response_document(done, timezone.now()))


class FailureNotes(ApiView):
    """`/api/v1/failures/notes`: GET what was noted on a cause and its parts; POST a note: the `reason` is its text."""

    asks = {"fingerprint": "fingerprint of the issue, or of one merged into it"}
    takes = {"POST": BodySpec(COMMAND_FIELDS | {"fingerprint": str}, needed=("fingerprint",))}

    def get(self, request: Request) -> Response:
        grouping = grouping_of(self.environment)
        name = grouping.head(request.query_params.get("fingerprint", ""))
        if not name:
            raise CommandRejected(
                "invalid", "fingerprint is missing; use fingerprint=…", fields={"fingerprint": "is missing"}
            )
        require_known(self.environment, name, timezone.now())
        notes = notes_on(self.environment, grouping.parts(name))
        return Response(
            {"environment": self.environment, "fingerprint": name, "notes": [_of_note(one) for one in notes]}
        )

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = note_on_cause(**self.asked(request, body), fingerprint=body["fingerprint"])
        return Response({"note": _of_note(done.object), "was_already": done.was_already, "dry_run": done.is_dry_run})


class MergeFailures(ApiView):
    """`POST /api/v1/failures/merge`: make one cause of several; the first of `fingerprints` names the whole."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"fingerprints": list}, needed=("fingerprints",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        names = _names(body["fingerprints"], least=2)
        return Response(_of_arranged(merge_failures(**self.asked(request, body), fingerprints=names)))


class SplitFailure(ApiView):
    """`POST /api/v1/failures/split`: those failures of a fingerprint whose `field` has this `value` are a cause."""

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | {"fingerprint": str, "field": str, "value": str},
            needed=("fingerprint", "field", "value"),
        )
    }

    def post(self, request: Request) -> Response:
        body = self.body(request)
        rest = {name: body[name] for name in ("fingerprint", "field", "value")}
        return Response(_of_arranged(split_failure(**self.asked(request, body), **rest)))


class UndoGrouping(ApiView):
    """`POST /api/v1/failures/groupings/<number>/undo`: take a merge or a split back."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        return Response(_of_arranged(undo_grouping(**self.asked(request, body), grouping=number)))


class EditGrouping(ApiView):
    """`POST /api/v1/failures/groupings/<number>/edit`: change a merge (`into`) or a split (`field`, `value`).

    Answers with what that does to the causes of the last seven days, too; with `dry_run` nothing is changed.
    """

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | {"into": str, "field": str, "value": str},
            described={"into": {"type": "string", "description": "Fingerprint of the issue that it belongs to."}},
        )
    }

    def post(self, request: Request, number: int) -> Response:
        try:
            body, now = self.body(request), timezone.now()
        except (CommandRejected, APIException):
            require_permission(self.actor, PERMISSION, self.environment)
            raise
        asked = self.asked(request, body)
        require_editor(**asked, grouping=number)
        wanted = {name: body[name] for name in ("into", "field", "value") if name in body}
        rule, new = changed_rule(self.environment, number, **wanted)
        preview = preview_of(rule, new, now=now)
        done = edit_grouping(**asked, grouping=number, **wanted)
        return Response(_of_arranged(done) | {"preview": _of_preview(preview)})


def _of_preview(preview: Preview) -> Document:
    return {
        "moves": [
            {"from": one.before, "to": one.after, "failures": one.failures, "is_together": one.is_together}
            for one in preview.moves
        ],
        "read": preview.read,
        "read_from": preview.since.isoformat(),
        "is_partial": False,
    }


def _names(given: list[Any], *, least: int) -> list[str]:
    if not least <= len(given) <= BULK_MOST or not all(isinstance(one, str) and one.isprintable() for one in given):
        fault = f"is a list of {least} to {BULK_MOST} names"
        raise CommandRejected("invalid", f"fingerprints {fault}.", fields={"fingerprints": fault})
    return list(given)


def _of_failure(one: Fingerprint, standing: Standing, mix: Mix, question: int | None) -> Document:
    case = standing.case
    return {
        "fingerprint": one.fingerprint,
        "category": one.category.value,
        "message": one.message,
        "error_type": one.error_type,
        "status_code": one.status_code,
        "failures": one.count,
        "runs": one.runs,
        "instances": one.instances,
        "became": {ending.value: count for ending, count in zip(Ending, mix.counts, strict=True)},
        "first": one.first.isoformat(),
        "last": one.last.isoformat(),
        "operations": list(one.operations),
        "backends": list(one.backends),
        "escalation": question,
        "state": standing.state,
        "version": standing.version,
        "assigned_to": standing.assigned_to,
        "archived_until": case.archived_until.isoformat() if case and case.archived_until else None,
        "archived_more": case.archived_more if case else None,
        "seen_more": case.seen_more if case else 0,
        "archived_usual": case.archived_usual if case else None,
        "next_version_after": case.versions if case else None,
        "clean_runs": case.clean_needed if case else None,
        "clean_runs_seen": case.clean_seen if case else 0,
        "decided_by": case.decided_by if case else "",
        "reason": case.reason if case else "",
    }


def _of_note(one: FailureNote) -> Document:
    return {
        "number": one.pk,
        "fingerprint": one.fingerprint,
        "at": one.at.isoformat(),
        "by": one.by,
        "text": one.text,
    }


def _of_grouping(one: FailureGrouping) -> Document:
    return {
        "number": one.pk,
        "kind": one.kind,
        "fingerprint": one.fingerprint,
        "into": one.into,
        "field": one.field,
        "value": one.value,
        "made_at": one.made_at.isoformat(),
        "made_by": one.made_by,
        "reason": one.reason,
    }


def _of_result(one: Result) -> Document:
    if one.rejection is not None:
        rejection = one.rejection
        problem = documents.problem_document(
            rejection.status, rejection.code, rejection.detail, fields=rejection.fields, changes=rejection.changes
        )
        return {"fingerprint": one.fingerprint, "problem": problem}
    assert one.done is not None  # noqa: S101  # what was not refused was done
    case = one.done.object
    done = {
        "was_already": one.done.was_already,
        "dry_run": one.done.is_dry_run,
        "fingerprint": case.fingerprint,
        "state": case.state,
        "assigned_to": case.assigned_to,
        "version": case.version,
    }
    return {"fingerprint": one.fingerprint, "done": done}


def _of_arranged(done: CommandResult[str]) -> Document:
    return {"fingerprint": done.object, "was_already": done.was_already, "dry_run": done.is_dry_run}
