"""The machines' door to the steps for people: read them, write them, and tick them for a question."""

from __future__ import annotations

from datetime import date
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core.api.pagination import page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.serializers import Document, utc_text
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.runbooks.markdown import key_of, steps_of
from recovery_ops.control.runbooks.models import Runbook
from recovery_ops.control.runbooks.services import runbook_for, save_runbook, tick_step, ticks_of
from recovery_ops.rules.enums import Category


class Runbooks(ApiView):
    """`GET /api/v1/runbooks`: the steps that are written, one for each class of failures."""

    asks = paged()

    def get(self, request: Request) -> Response:
        found = Runbook.objects.filter(environment=self.environment).exclude(text="")
        shown, further = page_of(request, found, lambda one: (one.category,), (str,))
        rows = [_of_runbook(one) for one in shown]
        return Response({"environment": self.environment, "runbooks": rows, "next": further})


class RunbookOf(ApiView):
    """`/api/v1/runbooks/<category>`: GET the steps for one, PUT `markdown` to write them.

    Nothing is written where `markdown` is empty, and an empty one takes them away. `version` is that of the answer they
    were read from; where somebody wrote them meanwhile it is 409.
    """

    takes = {
        "PUT": BodySpec(
            COMMAND_FIELDS | {"markdown": str, "owner": str, "review_on": str, "version": int},
            needed=("markdown",),
        )
    }

    def get(self, request: Request, category: str) -> Response:
        held = Runbook.objects.filter(environment=self.environment, category=_known(category)).first()
        held = held or Runbook(category=category, version=0)
        return Response({"environment": self.environment, "runbook": _of_runbook(held)})

    def put(self, request: Request, category: str) -> Response:
        _known(category)
        body = self.body(request)
        done = save_runbook(
            **self.asked(request, body),
            category=category,
            text=body["markdown"],
            owner=body.get("owner", ""),
            review_on=day_in(body["review_on"], "review_on") if "review_on" in body else None,
            version=body.get("version"),
        )
        return Response(_of_done(done, {"runbook": _of_runbook(done.object)}))


class StepsOf(ApiView):
    """`/api/v1/escalations/<number>/steps`: GET the steps for a question, POST `step` and `done`.

    `step` is the key of one, or its words.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"step": str, "done": bool}, needed=("step", "done"))}

    def get(self, request: Request, number: int) -> Response:
        return Response({"environment": self.environment, "steps": _steps_of(_question(self.environment, number))})

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        one = _question(self.environment, number)
        is_key = any(step["key"] == body["step"] for step in _steps_of(one))
        key = body["step"] if is_key else key_of(body["step"])
        done = tick_step(**self.asked(request, body), number=one.pk, step=key, is_done=body["done"])
        return Response(_of_done(done, {"steps": _steps_of(done.object)}))


def _known(category: str) -> str:
    if category not in set(Category):
        raise CommandRejected("unknown_category", "The category does not exist.", status=NOT_FOUND)
    return category


def _question(environment: str, number: int) -> Escalation:
    found = Escalation.objects.filter(environment=environment, pk=number).first()
    if found is None:
        raise CommandRejected(
            "unknown_escalation", f"Escalation ESC-{number} does not exist in {environment}.", status=NOT_FOUND
        )
    return found


def _steps_of(one: Escalation) -> list[Document]:
    runbook = runbook_for(one.environment, one.category)
    ticks = {tick.key: tick for tick in ticks_of(one)} if runbook else {}
    found = []
    for step in steps_of(runbook.text) if runbook else ():
        tick = ticks.get(step.key)
        by: dict[str, Any] = {"by": tick.by if tick else None, "at": utc_text(tick.at) if tick else None}
        found.append({"key": step.key, "step": step.words, "done": tick is not None, **by})
    return found


def _of_runbook(one: Runbook) -> Document:
    return {
        "category": one.category,
        "markdown": one.text,
        "steps": [step.words for step in steps_of(one.text)],
        "owner": one.owner,
        "review_on": None if one.review_on is None else one.review_on.isoformat(),
        "version": one.version,
        "changed_by": one.changed_by,
        "changed_at": utc_text(one.changed_at),
        "used_at": utc_text(one.used_at),
        "used_by": one.used_by,
    }


def _of_done(done: CommandResult[Any], more: Document) -> Document:
    return {"was_already": done.was_already, "dry_run": done.is_dry_run, **more}


def day_in(text: str, name: str) -> date | None:
    """A day; None for none. Raises CommandRejected (400) for anything else."""
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        fault = "is a date such as 2026-11-22"
        raise CommandRejected("invalid", f"{name} {fault}.", fields={name: fault}) from None
