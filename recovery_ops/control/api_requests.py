"""How every request to the API is read: who asks, about which environment, with which body; errors as problems."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
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

from events.keys import KeyRefused, KeyStoreAway, authenticate
from events.models import AgentKey
from recovery_ops.control import documents
from recovery_ops.control.actions import Asked
from recovery_ops.control.actors import Actor
from recovery_ops.control.context import actor_of, environment_of, origin_of
from recovery_ops.control.refusals import Refused
from recovery_ops.control.roles import may_of_key

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 5
_CODES = {401: "not_signed_in", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 415: "unsupported"}


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """A program that came with a key, where Django expects a user."""

    key: AgentKey
    is_authenticated: bool = True
    is_active: bool = True


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>`: scope `read` to look, `act` to change."""

    def authenticate(self, request: Request) -> tuple[KeyHolder, AgentKey] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        key = authenticate(header, "read" if request.method in SAFE_METHODS else "act")
        return KeyHolder(key), key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class Api(APIView):
    """A view for people with a session and programs with a key; both are asked the same questions.

    `environment` is the key's own, for people as in `context.environment_of`.
    """

    authentication_classes = [KeyAuthentication, SessionAuthentication]
    permission_classes = []
    needs = "see"
    """The permission that looking here takes."""

    environment: str
    actor: Actor

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {**super().default_response_headers, "Cache-Control": "no-store"}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not request.user.is_authenticated:
            raise exceptions.NotAuthenticated("Sign in, or send the header `Authorization: Bearer <key>`.")
        self.environment, self.actor = _asker(request)
        if request.method in SAFE_METHODS and not self.actor.may(self.needs, self.environment):
            raise PermissionDenied(f"{self.actor.name} may not {self.needs.replace('_', ' ')} in {self.environment}.")

    def handle_exception(self, exc: Exception) -> Response:
        """Every error as a problem document: never a page, never a redirect."""
        answer = problem_of(exc)
        if answer.status_code == 401:
            answer["WWW-Authenticate"] = "Bearer"
        answer.exception = True
        return answer

    def asked(self, request: Request, body: Mapping[str, Any]) -> Asked:
        """What an action is given of every request: who, where, why, what was seen, and the idempotency key."""
        return Asked(
            by=self.actor,
            environment=self.environment,
            reason=body.get("reason", ""),
            seen=_seen(request),
            key=request.headers.get("Idempotency-Key"),
            dry_run=body.get("dry_run", False) or request.query_params.get("dry_run") in ("true", "1"),
        )


def problem_of(error: Exception) -> Response:
    """An error as a problem document with its status."""
    if isinstance(error, Refused):
        return _problem(error.status, error.code, error.detail, fields=error.fields, changes=error.changes)
    if isinstance(error, KeyRefused):
        return _problem(error.status, _CODES[error.status], error.message)
    if isinstance(error, KeyStoreAway | OperationalError | InterfaceError):
        answer = _problem(503, "away", "The store cannot be reached now. Try again in a few seconds.")
        answer["Retry-After"] = str(RETRY_AFTER_S)
        return answer
    if isinstance(error, Http404 | PermissionDenied):
        status = 404 if isinstance(error, Http404) else 403
        return _problem(status, _CODES[status], str(error) or "There is nothing here.")
    if isinstance(error, exceptions.APIException):
        detail = error.detail if isinstance(error.detail, str) else "The request is not understood."
        return _problem(error.status_code, _CODES.get(error.status_code, "invalid"), detail)
    logger.error("a request to the API failed", exc_info=error)
    return _problem(500, "internal", "This is a fault of ours; the log of the server tells more.")


def said(request: Request, fields: Mapping[str, type], *, needed: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a JSON body, each of its type. Raises Refused (400) naming every one that is not.

    `float` takes any number. A name that is not in `fields` is refused: a misspelt `expires_in_s` must not pass.
    """
    body = request.data
    if not isinstance(body, Mapping):
        raise Refused("invalid", "The body is not a JSON object.")
    faults = {name: f"is not known; there are {', '.join(sorted(fields))}" for name in body if name not in fields}
    faults |= {name: "is missing" for name in needed if name not in body}
    faults |= {
        name: _KINDS[fields[name]] for name, value in body.items() if name in fields and not _is(value, fields[name])
    }
    if faults:
        told = "; ".join(f"{name} {fault}" for name, fault in faults.items())
        raise Refused("invalid", f"Nothing was changed: {told}.", fields=faults)
    return dict(body)


_KINDS: dict[type, str] = {
    str: "is a text",
    bool: "is true or false",
    float: "is a number",
    dict: "is an object",
}


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind)


def _asker(request: Request) -> tuple[str, Actor]:
    http: HttpRequest = request._request
    key = request.auth
    if not isinstance(key, AgentKey):
        return environment_of(http), actor_of(http, "api")
    scopes, place = key.scopes.split(), key.environment
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
    number = given.removeprefix("W/").strip('"')
    if number == "*":
        return None
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise Refused("invalid", f"If-Match is the revision that you looked at, not {given}.")
    return int(number)


def _problem(status: int, code: str, detail: str, **more: Any) -> Response:
    document = documents.of_problem(status, code, detail, **more)
    return Response(document, status=status, content_type="application/problem+json")
