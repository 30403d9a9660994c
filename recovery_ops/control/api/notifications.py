"""The machines' door to notifications: channels, rules and chains, made, changed, tested and removed; and the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.actions import Done, notifying
from recovery_ops.control.actions.resending import resend
from recovery_ops.control.api.paging import newest_of, page_of, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.documents import notifications as documents
from recovery_ops.control.models import Channel, Delivery, EscalationChain, NotificationRule
from recovery_ops.control.models.notifying import Wanted
from recovery_ops.control.notify.chains import names_of
from recovery_ops.control.notify.repeating import repeated_by
from recovery_ops.control.refusals import UNKNOWN, Refused

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


class _Door(Api):
    """What the three doors share: one kind of thing that people set up."""

    changes_with = "settings"
    model: ClassVar[type[Wanted]]
    noun: ClassVar[str]

    def document(self, one: Any) -> dict[str, Any]:
        raise NotImplementedError

    def save(self, request: Request, body: Mapping[str, Any], one: Any) -> Done[Any]:
        raise NotImplementedError

    def found(self, number: int) -> Any:
        """The one of this number. Raises Refused (404)."""
        one = self.model._default_manager.filter(environment=self.environment, pk=number, removed_at=None).first()
        if one is None:
            detail = f"There is no {self.noun} {number} in {self.environment}."
            raise Refused(f"unknown_{self.noun}", detail, status=UNKNOWN)
        return one

    def framed(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        """What every action is given, with the version that If-Match names."""
        asked = dict(self.asked(request, body))
        return asked | {"version": asked.pop("seen", None)}

    def done(self, done: Done[Any], *, is_new: bool = False) -> Response:
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
    remove: ClassVar[Callable[..., Done[Any]]]

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
        return documents.of_channel(one)

    def save(self, request: Request, body: Mapping[str, Any], one: Channel | None) -> Done[Channel]:
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

    takes = {"POST": Takes(WHY | _CHANNEL | {"kind": str}, needed=("reason", "name", "kind"))}


class ChannelOf(_OfChannels, _One):
    """`/api/v1/notifications/channels/<number>`: GET one, PATCH what is named, DELETE it and its secret."""

    takes = {"PATCH": Takes(WHY | _CHANNEL), "DELETE": Takes(WHY)}
    remove = staticmethod(notifying.remove_channel)


class TestChannel(_OfChannels):
    """`POST /api/v1/notifications/channels/<number>/test`: send it something that says it is a test."""

    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, number: int) -> Response:
        done = notifying.test_channel(**self.framed(request, self.body(request)), number=self.found(number).pk)
        told = documents.of_delivery(done.object) | ({"number": None} if done.is_dry_run else {})
        return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "delivery": told})


# -- rules -------------------------------------------------------------------------------------------------------------
class _OfRules(_Door):
    model, noun = NotificationRule, "rule"

    def document(self, one: NotificationRule) -> dict[str, Any]:
        return documents.of_rule(one)

    def save(self, request: Request, body: Mapping[str, Any], one: NotificationRule | None) -> Done[NotificationRule]:
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

    takes = {"POST": Takes(WHY | _RULE, needed=("reason", "name", "channel", "triggers"))}


class RuleOf(_OfRules, _One):
    """`/api/v1/notifications/rules/<number>`: GET one, PATCH what is named, DELETE it."""

    takes = {"PATCH": Takes(WHY | _RULE), "DELETE": Takes(WHY)}
    remove = staticmethod(notifying.remove_rule)


def _clock(name: str, given: Any) -> Any:
    """A time of day of a quiet, None for none; other words of a quiet as they are. Raises Refused (400)."""
    if name not in ("quiet_from", "quiet_to"):
        return given
    if given is None:
        return None
    if not isinstance(given, str) or not _CLOCK.fullmatch(given):
        raise Refused("invalid", f"{name} is a time of day, as 22:00.", fields={name: "is a time of day, as 22:00"})
    return time.fromisoformat(given)


# -- chains ------------------------------------------------------------------------------------------------------------
class _OfChains(_Door):
    model, noun = EscalationChain, "chain"

    def document(self, one: EscalationChain) -> dict[str, Any]:
        return documents.of_chain(one, names_of(self.environment))

    def save(self, request: Request, body: Mapping[str, Any], one: EscalationChain | None) -> Done[EscalationChain]:
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

    takes = {"POST": Takes(WHY | _CHAIN, needed=("reason", "name", "steps"))}


class ChainOf(_OfChains, _One):
    """`/api/v1/notifications/chains/<number>`: GET one, PATCH what is named, DELETE it."""

    takes = {"PATCH": Takes(WHY | _CHAIN), "DELETE": Takes(WHY)}
    remove = staticmethod(notifying.remove_chain)


class Deliveries(Api):
    """`GET /api/v1/notifications/deliveries`: the newest messages first, and what became of each."""

    asks = paged() | {"state": f"one of {', '.join(Delivery.STATES)}"}

    def get(self, request: Request) -> Response:
        found = Delivery.objects.filter(environment=self.environment)
        if state := request.query_params.get("state", ""):
            if state not in Delivery.STATES:
                raise Refused("invalid", f"state is {self.asks['state']}.", fields={"state": "is not known"})
            found = found.filter(state=state)
        shown, further = newest_of(request, found, "pk")
        again = repeated_by(shown)
        rows = [documents.of_delivery(one, again=again.get(one.pk)) for one in shown]
        return Response({"environment": self.environment, "deliveries": rows, "next": further})


class ResendDelivery(Api):
    """`POST /api/v1/notifications/deliveries/<number>/resend`: send again what was not delivered, as a new message.

    Of one in doubt nobody knows whether it arrived: it takes `"may_arrive_twice": true`.
    """

    changes_with = "settings"
    takes = {"POST": Takes(WHY | {"may_arrive_twice": bool})}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        asked = dict(self.asked(request, body))
        asked.pop("seen", None)  # it is repeated once, whoever looked at what
        done = resend(**asked, number=number, may_arrive_twice=body.get("may_arrive_twice", False))  # type: ignore[arg-type]
        told = documents.of_delivery(done.object) | ({"number": None} if done.is_dry_run else {})
        return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "delivery": told})
