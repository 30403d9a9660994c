"""The machines' door to questions: list them, read one, and do what people do about one or about many."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response as Answer

from events.pages.table_files import JSON, MARKDOWN, MARKDOWN_TYPE
from recovery_ops.control.core import checks
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import asked_for, next_page, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.numbers import is_number
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.escalations import serializers as documents_escalations
from recovery_ops.control.escalations.post_mortems import post_mortem_of
from recovery_ops.control.escalations.selectors import queue as asking
from recovery_ops.control.escalations.services.actions import RESPONSES, faults_of, respond
from recovery_ops.control.escalations.services.merging import whole_of
from recovery_ops.control.notifications.escalation_policies import plan_of, who_is_at
from recovery_ops.control.notifications.filters import STEPS, narrowed_down
from recovery_ops.rules.notifications.escalation_levels import GOES_ON
from recovery_ops.rules.policy.escalation_terms import SEVERITIES

BULK_MOST = 200
EDIT = "edit"
"""To approve with another input than the agent proposed: an approval whose `text` has to be there."""
VERBS = (*RESPONSES, EDIT)
FIELDS: Mapping[str, dict[str, type]] = {
    "assign": {"to": str},
    "snooze": {"for_s": float},
    "escalate": {"to": str},
    GOES_ON: {"step": int},
    "label": {"labels": str},
    "entry": {"happened_at": str},
    "merge": {"into": int},
    "approve": {"text": str},
    "reject": {"text": str},
    EDIT: {"text": str},
}
"""What an act takes beside the reason."""
_NEEDED = {"assign": ("to",), "snooze": ("for_s",), "escalate": ("to",), "merge": ("into",), EDIT: ("text",)}
_NEEDED |= {"label": ("labels",), GOES_ON: ("step",)}
_EVERY_FIELD: dict[str, type] = {name: kind for fields in FIELDS.values() for name, kind in fields.items()}


_DOCS = {
    "acknowledge": "acknowledge it; the acknowledgement expires after half of the resolve time, at most 30 minutes",
    "assign": "assign it to the user `to`",
    "snooze": "snooze it for `for_s` seconds",
    "escalate": "move it to the queue `to`; the acknowledge deadline restarts",
    GOES_ON: "escalate to the level `step` at once; `reaches` names its targets; the acknowledgement ends",
    "note": "add the reason as a comment",
    "entry": "add the reason to the timeline, at `happened_at` (default: now)",
    "label": "add the `labels` (separated by commas); a minus removes a label",
    "merge": "merge it into `into`",
    "resolve": "resolve it",
    "reopen": "reopen it; the deadlines restart",
    "approve": "approve it; a waiting run continues",
    "reject": "reject it; a waiting run receives the rejection",
    EDIT: "approve it with another input: a waiting run continues with `text`",
}


class Escalations(ApiView):
    """`/api/v1/escalations`: GET a `tab` of the queue, the most urgent first; POST one `verb` for each of `numbers`.

    A POST answers with a result for each: `done`, or the `problem` that stopped this one and no other.
    """

    asks = paged() | {"tab": f"one of {', '.join(asking.TABS)} (open)", "queue": "only this queue"}
    asks |= {"severity": f"only this one: {', '.join(SEVERITIES)}"}
    asks |= {"owner": "only of this owner; `nobody` for unassigned", "label": "only with this label"}
    asks |= {"due": f"only those that are {' or '.join(asking.DUES)}", "q": "only with this text"}
    asks |= {"service": "only of this agent", "category": "only about failures of this category"}
    asks |= {"age": "only of this minimum age: 90m, 4h, 3d", "provider": "only of this provider"}
    asks |= {"step": "only with this number of notified escalation levels: 0 to 20"}
    takes = {
        "POST": BodySpec(COMMAND_FIELDS | {"verb": str, "numbers": list} | _EVERY_FIELD, needed=("verb", "numbers")),
    }

    def get(self, request: Request) -> Answer:
        now, me = timezone.now(), self.actor.user_id
        tab = request.query_params.get("tab", "open")
        if tab not in asking.TABS:
            raise CommandRejected(
                "invalid", f"tab is unknown; use one of {', '.join(asking.TABS)}.", fields={"tab": "is unknown"}
            )
        limit, after = asked_for(request, asking.PLACE)
        narrowed = asking.Narrowed.of(request.query_params)
        severity = narrowed.severity
        if severity and severity not in SEVERITIES:
            words = ", ".join(SEVERITIES)
            raise CommandRejected(
                "invalid", f"severity {severity!r} is unknown; use one of {words}.", fields={"severity": "is unknown"}
            )
        if narrowed.due and narrowed.due not in asking.DUES:
            words = ", ".join(asking.DUES)
            raise CommandRejected(
                "invalid", f"due {narrowed.due!r} is unknown; use one of {words}.", fields={"due": "is unknown"}
            )
        if narrowed.age and asking.age_of(narrowed.age) is None:
            raise CommandRejected(
                "invalid",
                f"age {narrowed.age!r} is not a duration; use 90m, 4h or 3d.",
                fields={"age": "is not a duration"},
            )
        if narrowed.step and narrowed.step not in STEPS:
            raise CommandRejected(
                "invalid", f"step {narrowed.step!r} is not a number from 0 to 20.", fields={"step": "is from 0 to 20"}
            )
        narrowed = narrowed_down(narrowed, self.environment, now)
        rows, cursor = asking.page_of(self.environment, tab, by=me, now=now, narrowed=narrowed, after=after, most=limit)
        return Answer(
            {
                "environment": self.environment,
                "counts": asking.counts_of(self.environment, by=me, now=now),
                "escalations": [documents_escalations.escalation_document(row) for row in rows],
                "next": next_page(request, cursor),
            }
        )

    def post(self, request: Request) -> Answer:
        body = self.body(request)
        verb, numbers = body["verb"], body["numbers"]
        if verb not in VERBS:
            raise CommandRejected(
                "invalid", f"verb {verb!r} is unknown; use one of {', '.join(VERBS)}.", fields={"verb": "is unknown"}
            )
        if not 1 <= len(numbers) <= BULK_MOST or not all(_is_number(one) for one in numbers):
            fault = f"is a list of 1 to {BULK_MOST} numbers"
            raise CommandRejected("invalid", f"numbers {fault}.", fields={"numbers": fault})
        _check_words(verb, body)
        results = [self._one(request, body, verb, number) for number in dict.fromkeys(numbers)]
        refused = sum("problem" in one for one in results)
        return Answer({"environment": self.environment, "results": results, "refused": refused})

    def _one(self, request: Request, body: dict[str, Any], verb: str, number: int) -> dict[str, Any]:
        try:
            done = responded(self, request, body, verb, number, is_alone=False)
        except CommandRejected as rejection:
            problem = documents.problem_document(
                rejection.status, rejection.code, rejection.detail, fields=rejection.fields, changes=rejection.changes
            )
            return {"number": number, "problem": problem}
        return {"number": number, "done": done}


class Escalation(ApiView):
    """`GET /api/v1/escalations/<number>`: one question, its clocks, its story, and who is asked when.

    Its ETag is its version, for If-Match; it is never answered with 304, since clocks run without a new version.
    """

    def get(self, request: Request, number: int) -> Answer:
        one = asking.find(self.environment, number)
        if one is None:
            raise _missing(self.environment, number)
        now, story = timezone.now(), asking.story_of(one)
        return Answer(
            {
                "environment": self.environment,
                "escalation": documents_escalations.escalation_document(asking.row_of(one, now)),
                "story": [documents_escalations.note_document(note) for note in story],
                "asked_when": documents_escalations.levels_document(plan_of(one, story, now)),
            },
            headers={"ETag": f'"{one.version}"'},
        )


class PostMortem(ApiView):
    """`GET /api/v1/escalations/<number>/post-mortem`: what the page of the same name tells of a question.

    `as=md` answers it as Markdown. What was merged is told by the whole.
    """

    asks = {"as": "json, or md for Markdown (json)"}

    def get(self, request: Request, number: int) -> Answer | HttpResponse:
        kind = request.query_params.get("as", JSON)
        if kind not in (JSON, MARKDOWN):
            raise CommandRejected("invalid", f"as is {kind!r}; use json or md.", fields={"as": "is json or md"})
        found = asking.find_with_story(self.environment, number)
        if found is not None and found[0].merged_into_id is not None:
            found = asking.find_with_story(self.environment, whole_of(found[0]).pk)
        if found is None:
            raise _missing(self.environment, number)
        one, story, _ = found
        told = post_mortem_of(one, story, timezone.now())
        if kind == JSON:
            return Answer({"environment": self.environment, "number": one.pk, "post_mortem": told.document()})
        address = request.build_absolute_uri(reverse("escalation-post-mortem", args=[one.pk]))
        answer = HttpResponse(told.markdown(address), content_type=MARKDOWN_TYPE)
        answer["Cache-Control"] = "no-store"
        return answer


def _missing(environment: str, number: int) -> CommandRejected:
    return CommandRejected(
        "unknown_escalation", f"Escalation ESC-{number} does not exist in {environment}.", status=NOT_FOUND
    )


class Respond(ApiView):
    """`POST /api/v1/escalations/<number>/<verb>`: one act on one question. If-Match is the version looked at."""

    verb = ""

    def post(self, request: Request, number: int) -> Answer:
        return Answer(responded(self, request, self.body(request), self.verb, number, is_alone=True))


def _responding(verb: str) -> type[Respond]:
    takes = BodySpec(COMMAND_FIELDS | dict(FIELDS.get(verb, {})), needed=tuple(_NEEDED.get(verb, ())))
    doc = f"`POST /api/v1/escalations/<number>/{verb}`: {_DOCS[verb]}."
    return type(f"Respond{verb.title()}", (Respond,), {"verb": verb, "takes": {"POST": takes}, "__doc__": doc})


RESPOND: dict[str, type[Respond]] = {verb: _responding(verb) for verb in VERBS}
"""A view for each act: what it takes depends on the act."""


def responded(
    api: ApiView, request: Request, body: Mapping[str, Any], verb: str, number: int, *, is_alone: bool
) -> dict[str, Any]:
    """Do one act on one question; of many, each has a key and no version of its own. Raises CommandRejected."""
    now = timezone.now()
    asked = api.asked(request, body)
    version = asked.pop("seen", None)
    if not is_alone:
        asked["key"] = checks.derive_part_key(asked["key"], verb, number)
    if verb == EDIT and not str(body.get("text", "")).strip():
        raise CommandRejected("invalid", "text is empty; write the input for the run.", fields={"text": "is missing"})
    rest: dict[str, Any] = {name: body[name] for name in FIELDS.get(verb, {}) if name in body}
    if "happened_at" in rest:
        rest["happened_at"] = _moment(rest["happened_at"])
    done = respond(
        "approve" if verb == EDIT else verb, **asked, **rest, number=number, version=version if is_alone else None
    )
    reaches = {"reaches": who_is_at(done.object, rest["step"])} if verb == GOES_ON else {}
    return documents_escalations.response_document(done, now) | reaches


def _check_words(verb: str, body: Mapping[str, Any]) -> None:
    """Refuse the words of a bulk act that would be refused for each of them. Raises CommandRejected (400) by field."""
    taken, needed = FIELDS.get(verb, {}), _NEEDED.get(verb, ())
    faults = {name: f"is not taken by {verb}" for name in _EVERY_FIELD if name in body and name not in taken}
    faults |= {name: "is missing" for name in needed if name not in body}
    checks.raise_for_errors(faults or faults_of("approve" if verb == EDIT else verb, body))


def _moment(text: str) -> datetime | None:
    """A moment with its zone; None for none. Raises CommandRejected (400) for anything else."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None and datetime(1971, 1, 1, tzinfo=UTC) < found < datetime(9000, 1, 1, tzinfo=UTC):
            return found
    except (ValueError, OverflowError):
        pass
    fault = "is a time such as 2026-11-22T14:05:00Z"
    raise CommandRejected(
        "invalid",
        f"happened_at {text!r} is not a time with a zone; use 2026-11-22T14:05:00Z.",
        fields={"happened_at": fault},
    )


def _is_number(one: object) -> bool:
    return is_number(one) and one > 0
