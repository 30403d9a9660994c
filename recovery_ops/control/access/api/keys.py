"""The machines' door to the keys that let programs in: list, make, replace, revoke."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.models import AgentKey
from events.moments import to_us
from recovery_ops.control.access import serializers as documents
from recovery_ops.control.access.selectors import key_line, keys_of
from recovery_ops.control.access.services import keys as actions
from recovery_ops.control.core.api.pagination import page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec, read_texts
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.serializers import Document


class _Door(ApiView):
    changes_with = "admin"

    def told(self, key: AgentKey, now: datetime) -> Document:
        """A key as whoever asks may know it."""
        may_manage = self.actor.may(actions.PERMISSION, self.environment)
        return documents.key_document(key_line(key, now), with_address=may_manage)

    def issued(self, done: CommandResult[actions.IssuedKey], *, is_new: bool) -> Response:
        """What was done, and the secret where this is the one moment to tell it."""
        told = documents.issued_key_document(done, key_line(done.object.key, timezone.now()))
        is_made = is_new and not (done.was_already or done.is_dry_run)
        return Response(told, status=201 if is_made else 200)


class Keys(_Door):
    """`/api/v1/keys`: GET every key by name, POST a new one, whose `token` the answer tells this once.

    `scopes` are words of ingest, desired, read, act, settings and admin; `days` is how long it is good for, null for
    ever; `requests_per_s` is how often it may ask, of each scope. A person needs a fresh sign-in; a key needs the scope
    `admin`.
    """

    asks = paged()
    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | {"name": str, "scopes": list, "days": object, "requests_per_s": int},
            needed=("name", "scopes"),
        ),
    }
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        def place(key: AgentKey) -> tuple[str, int, int]:
            return key.name, -to_us(key.created_at), -key.pk

        shown, further = page_of(request, keys_of(self.environment), place, (str, int, int))
        now = timezone.now()
        rows = [self.told(key, now) for key in shown]
        return Response({"environment": self.environment, "keys": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        scopes = read_texts(body, "scopes")
        more: dict[str, Any] = {name: body[name] for name in ("days", "requests_per_s") if name in body}
        done = actions.make_key(**self.asked(request, body), name=body["name"], scopes=scopes, **more)
        return self.issued(done, is_new=True)


class KeyOf(_Door):
    """`GET /api/v1/keys/<prefix>`: one key by its beginning. Its ETag is what `rotate` and `revoke` take."""

    def get(self, request: Request, prefix: str) -> Response:
        key = keys_of(self.environment).filter(prefix=prefix).first()
        if key is None:
            detail = f"Key {prefix[:80]} does not exist in {self.environment}."
            raise CommandRejected("unknown_key", detail, status=NOT_FOUND)
        told = self.told(key, timezone.now())
        return Response({"environment": self.environment, "key": told}, headers={"ETag": f'"{told["version"]}"'})


class Rotate(_Door):
    """`POST /api/v1/keys/<prefix>/rotate`: make a key like it, told this once; the old one ends after `overlap_s`.

    Where that is not said, both are good for a day.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"overlap_s": float})}
    answers = {"POST": 201}

    def post(self, request: Request, prefix: str) -> Response:
        body = self.body(request)
        more: dict[str, Any] = {"overlap_s": body["overlap_s"]} if "overlap_s" in body else {}
        return self.issued(actions.rotate_key(**self.asked(request, body), prefix=prefix, **more), is_new=True)


class Revoke(_Door):
    """`POST /api/v1/keys/<prefix>/revoke`: shut out whoever uses it, within seconds and for good."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, prefix: str) -> Response:
        return self.issued(actions.revoke(**self.asked(request, self.body(request)), prefix=prefix), is_new=False)
