"""The machines' door to notifications: channels, rules and chains, made, changed, tested and removed; and the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core.api.pagination import newest_of, page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.notifications import serializers as documents
from recovery_ops.control.notifications.escalation_policies import names_of
from recovery_ops.control.notifications.models.notifications import (
    Channel,
    Delivery,
    EscalationChain,
    NotificationRule,
    Wanted,
)
from recovery_ops.control.notifications.services import settings as notifying

WORDS: dict[str, type] = {
    "triggers": list,
    "operation": str,
    "queue": str,
    "causes": list,
    "providers": list,
    "least_severity": str,
    "failures": int,
    "within_min": int,
    "expiry_lead_min": int,
    "group_s": int,
    "quiet_from": object,
    "quiet_to": object,
    "quiet_zone": str,
    "quiet_passes": str,
}
"""What a rule asks for."""
_CHANNEL: dict[str, type] = {"name": str, "address": str, "secret": str, "is_on": bool}
_RULE: dict[str, type] = {"name": str, "channel": int, "is_on": bool, **WORDS}
_CHAIN: dict[str, type] = {"name": str, "steps": list, "is_on": bool}
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


class _Door(ApiView):
    """What the three doors share: one kind of thing that people set up."""

    changes_with = "settings"
    model: ClassVar[type[Wanted]]
    noun: ClassVar[str]

    def document(self, one: Any) -> dict[str, Any]:
        raise NotImplementedError

    def save(self, request: Request, body: Mapping[str, Any], one: Any) -> CommandResult[Any]:
        raise NotImplementedError

    def found(self, number: int) -> Any:
        """The one of this number. Raises CommandRejected (404)."""
        one = self.model._default_manager.filter(environment=self.environment, pk=number, removed_at=None).first()
        if one is None:
            detail = f"The {self.noun} {number} does not exist in {self.environment}."
            raise CommandRejected(f"unknown_{self.noun}", detail, status=NOT_FOUND)
        return one

    def framed(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        """What every action is given, with the version that If-Match names."""
        asked = dict(self.asked(request, body))
        return asked | {"version": asked.pop("seen", None)}

    def done(self, done: CommandResult[Any], *, is_new: bool = False) -> Response:
        """What was done, and the thing as it is now, or would be."""
        document = self.document(done.object)
        if is_new and done.is_dry_run:
            document["number"] = None  # it has none yet
        told = {"was_already": done.was_already, "dry_run": done.is_dry_run, self.noun: document}
        is_made = is_new and not (done.was_already or done.is_dry_run)
        return Response(told, status=201 if is_made else 200, headers={"ETag": f'"{done.object.version}"'})


class _Every(_Door):
    answers = {"POST": 201}
    asks = paged()

    def get(self, request: Request) -> Response:
        found = self.model._default_manager.filter(environment=self.environment, removed_at=None)
        shown, further = page_of(request, found, lambda one: (one.name, one.pk), (str, int))
        rows = [self.document(one) for one in shown]
        return Response({"environment": self.environment, f"{self.noun}s": rows, "next": further})

    def post(self, request: Request) -> Response:
        return self.done(self.save(request, self.body(request), None), is_new=True)


class _One(_Door):
    remove: ClassVar[Callable[..., CommandResult[Any]]]

    def get(self, request: Request, number: int) -> Response:
        one = self.found(number)
        return self.tagged({"environment": self.environment, self.noun: self.document(one)}, one.version)

    def patch(self, request: Request, number: int) -> Response:
        return self.done(self.save(request, self.body(request), self.found(number)))

    def delete(self, request: Request, number: int) -> Response:
        body = self.body(request)
        return self.done(type(self).remove(**self.framed(request, body), number=number))


# -- channels ----------------------------------------------------------------------------------------------------------
class _OfChannels(_Door):
    model, noun = Channel, "channel"

    def document(self, one: Channel) -> dict[str, Any]:
        return documents.channel_document(one)

    def save(self, request: Request, body: Mapping[str, Any], one: Channel | None) -> CommandResult[Channel]:
        return notifying.save_channel(
            **self.framed(request, body),
            number=one.pk if one else None,
            name=body.get("name", one.name if one else ""),
            is_on=body.get("is_on", one.is_on if one else True),
            kind=body.get("kind", ""),
            address=body.get("address", ""),
            secret=body.get("secret", ""),
        )


class Channels(_OfChannels, _Every):
    """`/api/v1/notifications/channels`: GET the ways to reach people, POST a new one.

    `kind` is slack, webhook, email, pagerduty or people; `address` and `secret` are never told again.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | _CHANNEL | {"kind": str}, needed=("name", "kind"))}


class ChannelOf(_OfChannels, _One):
    """`/api/v1/notifications/channels/<number>`: GET one, PATCH what is named, DELETE it and its secret."""

    takes = {"PATCH": BodySpec(COMMAND_FIELDS | _CHANNEL), "DELETE": BodySpec(COMMAND_FIELDS)}
    remove = staticmethod(notifying.remove_channel)


class TestChannel(_OfChannels):
    """`POST /api/v1/notifications/channels/<number>/test`: send it something that says it is a test."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        done = notifying.test_channel(**self.framed(request, self.body(request)), number=self.found(number).pk)
        told = documents.delivery_document(done.object) | ({"number": None} if done.is_dry_run else {})
        return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "delivery": told})


# -- rules -------------------------------------------------------------------------------------------------------------
class _OfRules(_Door):
    model, noun = NotificationRule, "rule"

    def document(self, one: NotificationRule) -> dict[str, Any]:
        return documents.rule_document(one)

    def save(
        self, request: Request, body: Mapping[str, Any], one: NotificationRule | None
    ) -> CommandResult[NotificationRule]:
        words = {name: getattr(one, name) for name in WORDS} if one else {}
        words |= {name: _clock(name, body[name]) if "quiet" in name else body[name] for name in WORDS if name in body}
        return notifying.save_rule(
            **self.framed(request, body),
            number=one.pk if one else None,
            name=body.get("name", one.name if one else ""),
            is_on=body.get("is_on", one.is_on if one else True),
            channel=body.get("channel", one.channel_id if one else 0),
            words=words,  # type: ignore[arg-type]  # the names are those
        )


class Rules(_OfRules, _Every):
    """`/api/v1/notifications/rules`: GET what channels are told, POST a new rule."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | _RULE, needed=("name", "channel", "triggers"))}


class RuleOf(_OfRules, _One):
    """`/api/v1/notifications/rules/<number>`: GET one, PATCH what is named, DELETE it."""

    takes = {"PATCH": BodySpec(COMMAND_FIELDS | _RULE), "DELETE": BodySpec(COMMAND_FIELDS)}
    remove = staticmethod(notifying.remove_rule)


def _clock(name: str, given: Any) -> Any:
    """A time of day of a quiet, None for none; other words of a quiet as they are. Raises CommandRejected (400)."""
    if name not in ("quiet_from", "quiet_to"):
        return given
    if given is None:
        return None
    if not isinstance(given, str) or not _CLOCK.fullmatch(given):
        raise CommandRejected(
            "invalid", f"{name} is not a time of day; use 22:00.", fields={name: "is a time of day such as 22:00"}
        )
    return time.fromisoformat(given)


# -- chains ------------------------------------------------------------------------------------------------------------
class _OfChains(_Door):
    model, noun = EscalationChain, "chain"

    def document(self, one: EscalationChain) -> dict[str, Any]:
        return documents.escalation_policy_document(one, names_of(self.environment))

    def save(
        self, request: Request, body: Mapping[str, Any], one: EscalationChain | None
    ) -> CommandResult[EscalationChain]:
        return notifying.save_chain(
            **self.framed(request, body),
            number=one.pk if one else None,
            name=body.get("name", one.name if one else ""),
            is_on=body.get("is_on", one.is_on if one else True),
            steps=body.get("steps", one.steps if one else []),
        )


class Chains(_OfChains, _Every):
    """`/api/v1/notifications/chains`: GET who is asked when, POST the chain of a queue, its `name` (`*`: every other).

    A step is `{"after_s": 900, "channel": 3, "person": "li"}`; `*` is everybody who may respond, where the channel
    writes to people.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | _CHAIN, needed=("name", "steps"))}


class ChainOf(_OfChains, _One):
    """`/api/v1/notifications/chains/<number>`: GET one, PATCH what is named, DELETE it."""

    takes = {"PATCH": BodySpec(COMMAND_FIELDS | _CHAIN), "DELETE": BodySpec(COMMAND_FIELDS)}
    remove = staticmethod(notifying.remove_chain)


class Deliveries(ApiView):
    """`GET /api/v1/notifications/deliveries`: the newest messages first, and what became of each."""

    asks = paged() | {"state": f"one of {', '.join(Delivery.STATES)}"}

    def get(self, request: Request) -> Response:
        found = Delivery.objects.filter(environment=self.environment)
        if state := request.query_params.get("state", ""):
            if state not in Delivery.STATES:
                raise CommandRejected(
                    "invalid", f"state is unknown; use {self.asks['state']}.", fields={"state": "is unknown"}
                )
            found = found.filter(state=state)
        shown, further = newest_of(request, found, "pk")
        rows = [documents.delivery_document(one) for one in shown]
        return Response({"environment": self.environment, "deliveries": rows, "next": further})
