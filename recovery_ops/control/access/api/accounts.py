"""The machines' door to people's accounts: list, make, give and take roles, reset, lock out, let in again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.access import serializers as documents
from recovery_ops.control.access.selectors import PersonLine, people_of, person_line, person_of
from recovery_ops.control.access.services import accounts as people
from recovery_ops.control.core.api.pagination import page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.commands import CommandContext, CommandResult
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.rules.policy.scope import ANY

_PLACE: dict[str, type] = {"everywhere": bool}
_WHOLE = {"reset": people.reset_account, "disable": people.disable_account, "enable": people.enable_account}
WHOLE = tuple(_WHOLE)
"""What concerns a whole account, and so takes an admin of every environment."""


class _Door(ApiView):
    changes_with = "admin"

    @property
    def of_all(self) -> bool:
        """Whether the asker's business is everybody, and not those alone who hold a role here."""
        return self.actor.may(people.PERMISSION, EVERYWHERE)

    def found(self, number: int) -> PersonLine:
        """The account of this number. Raises CommandRejected (404)."""
        line = person_of(self.environment, number, of_all=self.of_all)
        if line is None:
            detail = f"User {number} does not exist in {self.environment}."
            raise CommandRejected("unknown_account", detail, status=NOT_FOUND)
        return line

    def asked_in(self, request: Request, body: Mapping[str, Any]) -> CommandContext:
        """What an action is given, about this environment or, by `everywhere`, about all of them."""
        asked = self.asked(request, body)
        return {**asked, "environment": EVERYWHERE} if body.get("everywhere", False) else asked

    def done(self, done: CommandResult[people.Account], *, is_new: bool = False) -> Response:
        """What was done, and the password where this is the one moment to tell it."""
        line = person_line(done.object.user, self.environment)
        told = documents.account_result_document(done, line, of_all=self.of_all)
        if is_new and done.is_dry_run:
            told["account"]["number"] = None  # it has none yet
        is_made = is_new and not (done.was_already or done.is_dry_run)
        return Response(told, status=201 if is_made else 200)


class Accounts(_Door):
    """`/api/v1/accounts`: GET who may come in and with which role; POST a new account, its `password` told this once.

    With `everywhere` the role holds in every environment. It takes an admin, or a key of scope `admin`.
    """

    asks = paged()
    takes = {"POST": BodySpec(COMMAND_FIELDS | _PLACE | {"name": str, "role": str}, needed=("name", "role"))}
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        every = people_of(self.environment, of_all=self.of_all)
        shown, further = page_of(request, every, lambda line: (line.user.get_username(),), (str,))
        rows = [documents.account_document(line, of_all=self.of_all) for line in shown]
        return Response({"environment": self.environment, "accounts": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        asked = self.asked_in(request, body)
        return self.done(people.create_account(**asked, name=body["name"], role=body["role"]), is_new=True)


class AccountOf(_Door):
    """`GET /api/v1/accounts/<number>`: one account. Its ETag is what every change of it takes as If-Match."""

    def get(self, request: Request, number: int) -> Response:
        told = documents.account_document(self.found(number), of_all=self.of_all)
        answer = {"environment": self.environment, "account": told}
        return Response(answer, headers={"ETag": f'"{told["version"]}"'})


class RoleOf(_Door):
    """`/api/v1/accounts/<number>/role`: PUT another `role`, DELETE takes it away; of a `group` of agents, or of all."""

    takes = {
        "PUT": BodySpec(COMMAND_FIELDS | _PLACE | {"role": str, "group": str}, needed=("role",)),
        "DELETE": BodySpec(COMMAND_FIELDS | _PLACE | {"group": str}),
    }

    def put(self, request: Request, number: int) -> Response:
        body = self.body(request)
        return self.done(people.grant_role(**self._asked(request, body, number), role=body["role"]))

    def delete(self, request: Request, number: int) -> Response:
        return self.done(people.take_role(**self._asked(request, self.body(request), number)))

    def _asked(self, request: Request, body: Mapping[str, Any], number: int) -> Any:
        name = self.found(number).user.get_username()
        return {**self.asked_in(request, body), "name": name, "group": body.get("group", ANY)}


class Change(_Door):
    """`POST /api/v1/accounts/<number>/reset`, `/disable`, `/enable`: another password, locked out, let in again.

    The whole account is meant, so it takes an admin of every environment; `password` is told this once.
    """

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        asked: Any = {**self.asked(request, self.body(request)), "environment": EVERYWHERE}
        return self.done(_WHOLE[self.verb](**asked, name=self.found(number).user.get_username()))
