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

from events.exports import JSON, MARKDOWN, MARKDOWN_TYPE
from recovery_ops.control import documents
from recovery_ops.control.actions import Done, checks
from recovery_ops.control.actions.escalations import RESPONSES, faults_of, respond
from recovery_ops.control.actions.learning import add_follow_up, finish_follow_up, star_note
from recovery_ops.control.api.paging import asked_for, next_page, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.api.runbooks import day_in
from recovery_ops.control.documents import escalations as documents_escalations
from recovery_ops.control.documents.post_mortems import post_mortem_of
from recovery_ops.control.escalations import asking
from recovery_ops.control.escalations.learning import follow_ups_of
from recovery_ops.control.escalations.merging import whole_of
from recovery_ops.control.models import Escalation as EscalationRecord
from recovery_ops.control.notify.chains import plan_of, who_is_at
from recovery_ops.control.notify.narrowing import STEPS, narrowed_down
from recovery_ops.control.numbers import is_number
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.rules.chains import GOES_ON
from recovery_ops.rules.escalation_terms import SEVERITIES

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
    "acknowledge": "take it; after half of its time to be resolved, at most 30 minutes, it asks again",
    "assign": "give it to the person called `to`",
    "snooze": "put it off for `for_s` seconds; it comes back by itself",
    "escalate": "ask the queue `to` instead; its clock to be taken starts anew",
    GOES_ON: "ask the `step` of its chain at once, which `reaches` whom it says; nobody has it until somebody takes it",
    "note": "say something that everybody who looks at it reads: the reason",
    "entry": "add what the reason tells to its timeline, at `happened_at` (now where it is not said)",
    "label": "give it the `labels` (separated by commas), and take those behind a minus away",
    "merge": "close it; its number leads to `into`",
    "resolve": "nothing more is to be done about it",
    "reopen": "its clocks start anew",
    "approve": "a run that waits goes on",
    "reject": "a run that waits is told no",
    EDIT: "approve with another input: a run that waits goes on with `text`",
}


class Escalations(Api):
    """`/api/v1/escalations`: GET a `tab` of the queue, the most urgent first; POST one `verb` for each of `numbers`.

    A POST answers with a result for each: `done`, or the `problem` that stopped this one and no other.
    """

    asks = paged() | {"tab": f"one of {', '.join(asking.TABS)} (open)", "queue": "only this queue"}
    asks |= {"severity": f"only this one: {', '.join(SEVERITIES)}"}
    asks |= {"owner": "only this person’s; `nobody` for nobody’s", "label": "only with this label"}
    asks |= {"due": f"only those that are {' or '.join(asking.DUES)}", "q": "only with these words"}
    asks |= {"service": "only what this agent asks", "category": "only about failures of this category"}
    asks |= {"age": "only those asked so long ago at least: 90m, 4h, 3d", "provider": "only about this provider’s work"}
    asks |= {"step": "only those of whose chain so many steps were due: 0 to 20"}
    takes = {
        "POST": Takes(WHY | {"verb": str, "numbers": list} | _EVERY_FIELD, needed=("reason", "verb", "numbers")),
    }

    def get(self, request: Request) -> Answer:
        now, me = timezone.now(), self.actor.user_id
        tab = request.query_params.get("tab", "open")
        if tab not in asking.TABS:
            raise Refused("invalid", f"tab is one of {', '.join(asking.TABS)}.", fields={"tab": "is not known"})
        limit, after = asked_for(request, asking.PLACE)
        narrowed = asking.Narrowed.of(request.query_params)
        severity = narrowed.severity
        if severity and severity not in SEVERITIES:
            words = ", ".join(SEVERITIES)
            raise Refused("invalid", f"severity is one of {words}.", fields={"severity": "is not known"})
        if narrowed.due and narrowed.due not in asking.DUES:
            words = ", ".join(asking.DUES)
            raise Refused("invalid", f"due is one of {words}.", fields={"due": "is not known"})
        if narrowed.age and asking.age_of(narrowed.age) is None:
            raise Refused("invalid", "age is a span like 90m, 4h or 3d.", fields={"age": "is no span"})
        if narrowed.step and narrowed.step not in STEPS:
            raise Refused("invalid", "step is a number from 0 to 20.", fields={"step": "is from 0 to 20"})
        narrowed = narrowed_down(narrowed, self.environment, now)
        rows, cursor = asking.page_of(self.environment, tab, by=me, now=now, narrowed=narrowed, after=after, most=limit)
        return Answer(
            {
                "environment": self.environment,
                "counts": asking.counts_of(self.environment, by=me, now=now),
                "escalations": [documents_escalations.of_escalation(row) for row in rows],
                "next": next_page(request, cursor),
            }
        )

    def post(self, request: Request) -> Answer:
        body = self.body(request)
        verb, numbers = body["verb"], body["numbers"]
        if verb not in VERBS:
            raise Refused("invalid", f"verb is one of {', '.join(VERBS)}.", fields={"verb": "is not known"})
        if not 1 <= len(numbers) <= BULK_MOST or not all(_is_number(one) for one in numbers):
            fault = f"is a list of 1 to {BULK_MOST} numbers"
            raise Refused("invalid", f"numbers {fault}.", fields={"numbers": fault})
        _check_words(verb, body)
        results = [self._one(request, body, verb, number) for number in dict.fromkeys(numbers)]
        refused = sum("problem" in one for one in results)
        return Answer({"environment": self.environment, "results": results, "refused": refused})

    def _one(self, request: Request, body: dict[str, Any], verb: str, number: int) -> dict[str, Any]:
        try:
            done = responded(self, request, body, verb, number, is_alone=False)
        except Refused as refusal:
            problem = documents.of_problem(
                refusal.status, refusal.code, refusal.detail, fields=refusal.fields, changes=refusal.changes
            )
            return {"number": number, "problem": problem}
        return {"number": number, "done": done}


class Escalation(Api):
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
                "escalation": documents_escalations.of_escalation(asking.row_of(one, now)),
                "story": [documents_escalations.of_note(note) for note in story],
                "follow_ups": [documents_escalations.of_follow_up(todo) for todo in follow_ups_of(one)],
                "asked_when": documents_escalations.of_plan(plan_of(one, story, now)),
            },
            headers={"ETag": f'"{one.version}"'},
        )


class PostMortem(Api):
    """`GET /api/v1/escalations/<number>/post-mortem`: what the page of the same name tells of a question.

    `as=md` answers it as Markdown. What was merged is told by the whole.
    """

    asks = {"as": "json, or md for Markdown (json)"}

    def get(self, request: Request, number: int) -> Answer | HttpResponse:
        kind = request.query_params.get("as", JSON)
        if kind not in (JSON, MARKDOWN):
            raise Refused("invalid", "as is json or md.", fields={"as": "is json or md"})
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


def _missing(environment: str, number: int) -> Refused:
    return Refused("unknown_escalation", f"There is no escalation ESC-{number} in {environment}.", status=UNKNOWN)


class Respond(Api):
    """`POST /api/v1/escalations/<number>/<verb>`: one act on one question. If-Match is the version looked at."""

    verb = ""

    def post(self, request: Request, number: int) -> Answer:
        return Answer(responded(self, request, self.body(request), self.verb, number, is_alone=True))


def _responding(verb: str) -> type[Respond]:
    takes = Takes(WHY | dict(FIELDS.get(verb, {})), needed=("reason", *_NEEDED.get(verb, ())))
    doc = f"`POST /api/v1/escalations/<number>/{verb}`: {_DOCS[verb]}."
    return type(f"Respond{verb.title()}", (Respond,), {"verb": verb, "takes": {"POST": takes}, "__doc__": doc})


RESPOND: dict[str, type[Respond]] = {verb: _responding(verb) for verb in VERBS}
"""A view for each act: what it takes depends on the act."""


def responded(
    api: Api, request: Request, body: Mapping[str, Any], verb: str, number: int, *, is_alone: bool
) -> dict[str, Any]:
    """Do one act on one question; of many, each has a key and no version of its own. Raises Refused."""
    now = timezone.now()
    asked = api.asked(request, body)
    version = asked.pop("seen", None)
    if not is_alone:
        asked["key"] = checks.key_of_part(asked["key"], verb, number)
    if verb == EDIT and not str(body.get("text", "")).strip():
        raise Refused("invalid", "Say what the run is to go on with.", fields={"text": "is missing"})
    rest: dict[str, Any] = {name: body[name] for name in FIELDS.get(verb, {}) if name in body}
    if "happened_at" in rest:
        rest["happened_at"] = _moment(rest["happened_at"])
    done = respond(
        "approve" if verb == EDIT else verb, **asked, **rest, number=number, version=version if is_alone else None
    )
    reaches = {"reaches": who_is_at(done.object, rest["step"])} if verb == GOES_ON else {}
    return documents_escalations.of_done(done, now) | reaches


def _check_words(verb: str, body: Mapping[str, Any]) -> None:
    """Refuse the words of a bulk act that would be refused for each of them. Raises Refused (400) by field."""
    taken, needed = FIELDS.get(verb, {}), _NEEDED.get(verb, ())
    faults = {name: f"is not taken by {verb}" for name in _EVERY_FIELD if name in body and name not in taken}
    faults |= {name: "is missing" for name in needed if name not in body}
    checks.refuse(faults or faults_of("approve" if verb == EDIT else verb, body))


class Star(Api):
    """`POST /api/v1/escalations/<number>/star`: star the line `note` of its story for the post-mortem, or take the star
    away (`starred` false).
    """

    takes = {"POST": Takes(WHY | {"note": int, "starred": bool}, needed=("reason", "note", "starred"))}

    def post(self, request: Request, number: int) -> Answer:
        body = self.body(request)
        asked = self.asked(request, body)
        done = star_note(**asked, number=number, note=body["note"], is_starred=body["starred"])
        story = [documents_escalations.of_note(note) for note in asking.story_of(done.object)]
        return Answer({"was_already": done.was_already, "dry_run": done.is_dry_run, "story": story})


class FollowUps(Api):
    """`POST /api/v1/escalations/<number>/follow-ups`: write down what is still to be done, whose it is, and by when."""

    takes = {"POST": Takes(WHY | {"text": str, "owner": str, "due_on": str}, needed=("reason", "text", "owner"))}

    def post(self, request: Request, number: int) -> Answer:
        body = self.body(request)
        day = day_in(body.get("due_on", ""), "due_on")
        done = add_follow_up(
            **self.asked(request, body), number=number, text=body["text"], owner=body["owner"], due_on=day
        )
        return _of_follow_ups(done)


class FollowUpsDone(Api):
    """`POST /api/v1/escalations/<number>/follow-ups/done`: say that `follow_up` is done, or is not (`done` false)."""

    takes = {"POST": Takes(WHY | {"follow_up": int, "done": bool}, needed=("reason", "follow_up", "done"))}

    def post(self, request: Request, number: int) -> Answer:
        body = self.body(request)
        done = finish_follow_up(
            **self.asked(request, body), number=number, follow_up=body["follow_up"], is_done=body["done"]
        )
        return _of_follow_ups(done)


def _of_follow_ups(done: Done[EscalationRecord]) -> Answer:
    told = [documents_escalations.of_follow_up(one) for one in follow_ups_of(done.object)]
    return Answer({"was_already": done.was_already, "dry_run": done.is_dry_run, "follow_ups": told})


def _moment(text: str) -> datetime | None:
    """A moment with its zone; None for none. Raises Refused (400) for anything else."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None and datetime(1971, 1, 1, tzinfo=UTC) < found < datetime(9000, 1, 1, tzinfo=UTC):
            return found
    except (ValueError, OverflowError):
        pass
    fault = "is a moment such as 2026-11-22T14:05:00Z"
    raise Refused("invalid", f"Nothing was changed: happened_at {fault}.", fields={"happened_at": fault})


def _is_number(one: object) -> bool:
    return is_number(one) and one > 0
