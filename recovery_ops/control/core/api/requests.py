"""How every request to the API is read: who asks, about which environment, with which body; errors as problems."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from events.keys import KeyBusy, KeyRefused, KeyStoreAway, authenticate
from events.models import AgentKey
from recovery_ops.control.core import nul_bytes
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.actors import Actor, digest_request
from recovery_ops.control.core.checks import DEFAULT_EXPIRY_S
from recovery_ops.control.core.commands import CommandContext
from recovery_ops.control.core.environment import PARAMETER, actor_of, environment_of, origin_of
from recovery_ops.control.core.numbers import is_number, parse_number
from recovery_ops.control.core.permissions import may_of_key
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.control.core.serializers import approval_request_document

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 5
COMMAND_FIELDS: dict[str, type] = {"reason": str, "dry_run": bool}
"""What the body of every change may hold."""
BREAK_GLASS_FIELDS: dict[str, type] = {"break_glass": bool}
"""Break-glass: apply a change without the second approver; another user reviews it afterwards."""
COHORT_FIELDS: dict[str, type] = {"share": float, "for_s": float, "service": str, "group": str, "least_calls": int}
"""Canary of a proposal: its instances and duration."""


@dataclass(frozen=True, slots=True)
class BodySpec:
    """Fields of a body: the type of each, `object` for any, and the required ones.

    `described` is for fields that mean something else here than under the same name elsewhere: JSON Schema by field.
    """

    fields: Mapping[str, type]
    needed: tuple[str, ...] = ()
    described: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_CODES = {
    401: "not_signed_in",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    415: "unsupported",
    429: "too_often",
}
_DEFAULT_DETAILS = {403: "This request is not allowed.", 404: "The requested object does not exist."}


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """A program with a key, where Django expects a user."""

    key: AgentKey
    is_authenticated: bool = True
    is_active: bool = True


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>`: permission `read` to read; to write `act`, or what the view names."""

    def authenticate(self, request: Request) -> tuple[KeyHolder, AgentKey] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        view = request.parser_context["view"]
        scope = "read" if view.is_looking(request) else view.changes_with
        key = authenticate(header, scope, origin_of(request._request)["ip"])
        return KeyHolder(key), key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class ApiView(APIView):
    """A view for users with a session and programs with a key; both have the same permission checks.

    `environment` is that of the key, and a request that names another is rejected; for users see
    `core.environment.environment_of`.
    """

    authentication_classes = [KeyAuthentication, SessionAuthentication]
    permission_classes = []
    needs = "see"
    """The permission that looking here takes."""
    changes_with = "act"
    """The scope that a key needs to change something here."""
    is_reading = False
    """Whether a POST here changes nothing either."""
    is_open = False
    """Whether anybody may look."""
    content = "application/json"
    """As what it answers."""
    takes: Mapping[str, BodySpec] = {}
    """What a body holds, by method."""
    asks: Mapping[str, str] = {}
    """The parameters of GET, and what each is."""
    answers: Mapping[str, int] = {}
    """The status of a success where it is not 200, by method."""

    environment: str
    actor: Actor

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {**super().default_response_headers, "Cache-Control": "no-store"}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.is_open:
            return
        if not request.user.is_authenticated:
            raise exceptions.NotAuthenticated("Sign in, or send the header `Authorization: Bearer <key>`.")
        if nul_bytes.is_in(request._request):
            raise CommandRejected("invalid", nul_bytes.SAID, fields=nul_bytes.fields_with(request._request.body))
        self.environment, self.actor = _asker(request)
        if self.is_looking(request) and not self.actor.may(self.needs, self.environment):
            raise PermissionDenied(f"{self.actor.name} lacks the permission `{self.needs}` in {self.environment}.")

    def is_looking(self, request: Request) -> bool:
        """Whether this request changes nothing."""
        return request.method in SAFE_METHODS or self.is_reading

    def body(self, request: Request) -> dict[str, Any]:
        """The body as this method takes it. Raises CommandRejected (400) by field."""
        takes = self.takes[str(request.method)]
        return read_body(request, takes.fields, needed=takes.needed)

    def tagged(self, answer: Mapping[str, Any], number: int) -> Response:
        """The answer with the ETag that a change sends back as If-Match; 304 if the caller already has it."""
        tag = f'"{number}"'
        given = {one.strip().removeprefix("W/") for one in self.request.headers.get("If-None-Match", "").split(",")}
        if tag in given:
            return Response(status=304, headers={"ETag": tag})
        return Response(answer, headers={"ETag": tag})

    def seen_at(self, answer: Mapping[str, Any], revision: int) -> Response:
        """The answer with the revision as a weak ETag, for If-Match; never 304: events have no revisions."""
        return Response(
            {"environment": self.environment, "revision": revision, **answer}, headers={"ETag": f'W/"{revision}"'}
        )

    def handle_exception(self, exc: Exception) -> Response:
        """Every error as a problem document: never a page, never a redirect. A pending approval is no error."""
        if isinstance(exc, ApprovalPending):
            return Response(pending_document(exc), status=exc.status)
        answer = problem_of(exc)
        if answer.status_code == 405:
            answer["Allow"] = ", ".join(self.allowed_methods)
        if answer.status_code == 401:
            answer["WWW-Authenticate"] = "Bearer"
        answer.exception = True
        return answer

    def asked(self, request: Request, body: Mapping[str, Any]) -> CommandContext:
        """Context of a command from a request: actor, environment, reason, revision seen and idempotency key."""
        is_dry_run = body.get("dry_run", False) or request.query_params.get("dry_run") in ("true", "1")
        request_digest = digest_request(f"{request.method} {request.path}", {**body, "dry_run": is_dry_run})
        asked = CommandContext(
            by=replace(self.actor, request_digest=request_digest),
            environment=self.environment,
            reason=body.get("reason", ""),
            seen=_seen(request),
            key=request.headers.get("Idempotency-Key"),
            dry_run=is_dry_run,
        )
        if "break_glass" in body:
            asked["break_glass"] = body["break_glass"]
        return asked


def assumed_defaults(body: Mapping[str, Any]) -> dict[str, Any]:
    """Default values that were applied because the body did not set them."""
    return {} if "expires_in_s" in body else {"assumed": {"expires_in_s": DEFAULT_EXPIRY_S}}


def pending_document(pending: ApprovalPending) -> dict[str, Any]:
    """Answer to a change that waits for a second approver."""
    return {"waits": True, "detail": pending.detail, "request": approval_request_document(pending.request)}


def problem_of(error: Exception) -> Response:
    """An error as a problem document with its status."""
    if isinstance(error, CommandRejected):
        return _problem(error.status, error.code, error.detail, fields=error.fields, changes=error.changes)
    if isinstance(error, KeyRefused):
        refused = _problem(error.status, _CODES[error.status], error.message)
        if isinstance(error, KeyBusy):
            refused["Retry-After"] = str(error.retry_after_s)
        return refused
    if isinstance(error, KeyStoreAway | OperationalError | InterfaceError):
        answer = _problem(503, "away", "The database is unavailable. Retry in a few seconds.")
        answer["Retry-After"] = str(RETRY_AFTER_S)
        return answer
    if isinstance(error, Http404 | PermissionDenied):
        status = 404 if isinstance(error, Http404) else 403
        return _problem(status, _CODES[status], str(error) or _DEFAULT_DETAILS[status])
    if isinstance(error, exceptions.APIException):
        detail = error.detail if isinstance(error.detail, str) else "The request is invalid."
        return _problem(error.status_code, _CODES.get(error.status_code, "invalid"), detail)
    logger.error("a request to the API failed", exc_info=error)
    return _problem(500, "internal", "Internal server error; the server's log has the details.")


def read_body(request: Request, fields: Mapping[str, type], *, needed: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a JSON body, each of its type. Raises CommandRejected (400) with every wrong field.

    `float` takes any number, `object` anything. A name that is not in `fields` is rejected: a misspelt `expires_in_s`
    must not pass.
    """
    try:
        body = request.data
    except RecursionError:
        raise CommandRejected("invalid", "The body is nested too deeply.") from None
    if not isinstance(body, Mapping):
        raise CommandRejected("invalid", "The body must be a JSON object.")
    if not _is_text(body):
        raise CommandRejected("invalid", "The body contains half of a surrogate pair, which is not a character.")
    faults = {name: f"is not a field; use {', '.join(sorted(fields)) or 'none'}" for name in body if name not in fields}
    faults |= {name: "is missing" for name in needed if name not in body}
    faults |= {
        name: _KINDS[fields[name]] for name, value in body.items() if name in fields and not _is(value, fields[name])
    }
    if faults:
        told = "; ".join(f"{name} {fault}" for name, fault in faults.items())
        raise CommandRejected("invalid", f"Change rejected: {told}.", fields=faults)
    return dict(body)


def _is_text(body: Mapping[str, Any]) -> bool:
    """Whether every text in it can be stored: JSON can write what is no character."""
    try:
        json.dumps(body, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


_KINDS: dict[type, str] = {
    str: "must be a string",
    bool: "must be true or false",
    float: "must be a number",
    dict: "must be an object",
    int: "must be a whole number",
    list: "must be a list",
}


def read_texts(body: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts in a body. Raises CommandRejected (400) for anything else in it."""
    given = body[name]
    if not all(isinstance(one, str) and one.isprintable() for one in given):
        raise CommandRejected(
            "invalid", f"{name} must be a list of strings.", fields={name: "must be a list of strings"}
        )
    return list(given)


def read_number_parameter(request: Request, name: str, default: int) -> int:
    """A parameter that is a whole number from 0. Raises CommandRejected (400) for anything else."""
    given = request.query_params.get(name, "")
    if not given:
        return default
    number = parse_number(given)
    if number is None:
        fault = f"is {given}; use a whole number from 0"
        raise CommandRejected("invalid", f"{name} {fault}.", fields={name: fault})
    return number


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return is_number(value)
    return isinstance(value, kind)


def _asker(request: Request) -> tuple[str, Actor]:
    http: HttpRequest = request._request
    key = request.auth
    if not isinstance(key, AgentKey):
        return environment_of(http), actor_of(http, "api")
    scopes, place = key.scopes.split(), key.environment
    if set(request.query_params.getlist(PARAMETER)) - {place, ""}:
        told = f"must be {place}, the environment of the key, or absent"
        raise CommandRejected("invalid", f"Request rejected: {PARAMETER} {told}.", fields={PARAMETER: told})
    actor = Actor(
        name=key.name,
        kind="key",
        channel="api",
        may=lambda permission, environment: may_of_key(scopes, place, permission, environment),
        key_prefix=key.prefix,
        **origin_of(http),
    )
    return place, actor


def _seen(request: Request) -> int | None:
    """The revision that `If-Match` names: `42`, `"42"` or `W/"42"`; `*` and no header say nothing."""
    given = request.headers.get("If-Match", "*").strip()
    text = given.removeprefix("W/").strip('"')
    if text == "*":
        return None
    number = parse_number(text)
    if number is None:
        raise CommandRejected("invalid", f"If-Match is {given}; use a revision number, such as 42.")
    return number


def _problem(status: int, code: str, detail: str, **more: Any) -> Response:
    document = documents.problem_document(status, code, detail, **more)
    return Response(document, status=status, content_type="application/problem+json")
