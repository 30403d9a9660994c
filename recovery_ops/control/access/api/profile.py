"""What everybody sets for themselves, for whoever is signed in: where they are written to, and their sessions."""

from __future__ import annotations

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.access.services.accounts import set_own_email, version_of_account
from recovery_ops.control.access.services.sign_ins import end_sessions
from recovery_ops.control.core.api.pagination import page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.commands import CommandContext
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.rejections import FORBIDDEN, CommandRejected
from recovery_ops.control.core.serializers import Document, utc_text


class _Own(ApiView):
    def person(self, request: Request) -> User:
        """Who is signed in. Raises CommandRejected (403) for a key, which has nothing of its own."""
        if not isinstance(request.user, User):
            raise CommandRejected("not_a_person", "Only users have a profile; keys have none.", status=FORBIDDEN)
        return request.user


class You(_Own):
    """`/api/v1/you`: GET who is signed in, PATCH the `email` that one is written to; empty: one is not written to."""

    takes = {"PATCH": BodySpec(COMMAND_FIELDS | {"email": str}, needed=("email",))}

    def get(self, request: Request) -> Response:
        user = self.person(request)
        answer = {"environment": self.environment, "you": _of_user(user)}
        return Response(answer, headers={"ETag": f'"{version_of_account(user)}"'})

    def patch(self, request: Request) -> Response:
        user, body = self.person(request), self.body(request)
        asked: CommandContext = {**self.asked(request, body), "environment": EVERYWHERE}
        done = set_own_email(user, **asked, email=body["email"])
        return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "you": _of_user(done.object)})


class Sessions(_Own):
    """`GET /api/v1/you/sessions`: where one is signed in, by number; `is_this` is the one that asks."""

    asks = paged()

    def get(self, request: Request) -> Response:
        user, own = self.person(request), request._request.session.session_key
        found = UserSession.objects.purge_and_list(user)
        shown, further = page_of(request, found, lambda one: (one.pk,), (int,))
        rows = [_of_session(one, own) for one in shown]
        return Response({"environment": self.environment, "sessions": rows, "next": further})


class EndSessions(_Own):
    """`POST /api/v1/you/sessions/end`: end the one with the number `session`, or all but the one that asks."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"session": int})}

    def post(self, request: Request) -> Response:
        user, body = self.person(request), self.body(request)
        asked: CommandContext = {**self.asked(request, body), "environment": EVERYWHERE}
        keep, only = str(request._request.session.session_key), body.get("session")
        done = end_sessions(user, **asked, keep=keep, only=only)
        return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "ended": done.object})


def _of_user(user: User) -> Document:
    return {"number": user.pk, "name": user.get_username(), "email": user.email, "version": version_of_account(user)}


def _of_session(one: UserSession, own: str | None) -> Document:
    return {
        "number": one.pk,
        "browser": one.user_agent,
        "ip": one.ip,
        "began_at": utc_text(one.created_at),
        "seen_at": utc_text(one.last_seen_at),
        "is_this": one.session_key == own,
    }
