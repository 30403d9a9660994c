"""The machines' door to saved views: list, save, rename, delete, and choose with which one a page opens."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.actions import Done
from recovery_ops.control.actions import views as actions
from recovery_ops.control.api.paging import page_of, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.documents import Document
from recovery_ops.control.documents import settings as documents
from recovery_ops.control.models import DefaultView, SavedView
from recovery_ops.control.refusals import UNKNOWN, Refused


class _Door(Api):
    def seen(self) -> QuerySet[SavedView]:
        """One's own views, and the team's."""
        mine = Q(pk__in=[]) if self.actor.user_id is None else Q(owner_id=self.actor.user_id)
        found = SavedView.objects.filter(mine | Q(is_team=True), environment=self.environment)
        return found.select_related("owner")

    def told(self, view: SavedView) -> Document:
        """The view as this asker sees it."""
        me = self.actor.user_id
        opened = DefaultView.objects.filter(environment=self.environment, screen=view.screen, view=view)
        return documents.of_view(
            view,
            owner=view.owner.get_username(),
            is_mine=view.owner_id == me,
            is_default=me is not None and opened.filter(user_id=me).exists(),
        )

    def done(self, done: Done[SavedView], *, status: int = 200) -> Response:
        """What was done, and the view as it is now, or would be."""
        view = done.object
        is_there = SavedView.objects.filter(pk=view.pk).exists()
        told = self.told(view) if is_there else {"number": None, "screen": view.screen, "name": view.name}
        return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "view": told}, status=status)


class Views(_Door):
    """`/api/v1/views`: GET one's own saved views and the team's, POST `screen`, `name` and `query` to save one.

    `query` is what stands behind the `?` of the page; with `is_team` everybody in the environment sees it. Under a name
    that one has there already it takes that one's place. Views are people's: a key has none of its own.
    """

    asks = paged() | {"screen": f"only those of one page: {', '.join(actions.SCREENS)}"}
    takes = {
        "POST": Takes(
            WHY | {"screen": str, "name": str, "query": str, "is_team": bool},
            needed=("reason", "screen", "name", "query"),
        )
    }

    def get(self, request: Request) -> Response:
        found = self.seen()
        if screen := request.query_params.get("screen", ""):
            if screen not in actions.SCREENS:
                fault = f"is one of {', '.join(actions.SCREENS)}"
                raise Refused("invalid", f"screen {fault}.", fields={"screen": fault})
            found = found.filter(screen=screen)
        shown, further = page_of(request, found, lambda view: (view.screen, view.name, view.pk), (str, str, int))
        rows = [self.told(view) for view in shown]
        return Response({"environment": self.environment, "views": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = actions.save_view(
            **self.asked(request, body),
            screen=body["screen"],
            name=body["name"],
            query=body["query"],
            is_team=body.get("is_team", False),
        )
        return self.done(done)


class ViewOf(_Door):
    """`/api/v1/views/<number>`: GET one, PATCH its `name`, DELETE it. Its ETag is what both take as If-Match."""

    takes = {"PATCH": Takes(WHY | {"name": str}, needed=("reason", "name")), "DELETE": Takes(WHY)}

    def get(self, request: Request, number: int) -> Response:
        view = self.seen().filter(pk=number).first()
        if view is None:
            raise Refused("unknown_view", "There is no such view.", status=UNKNOWN)
        told = self.told(view)
        answer = {"environment": self.environment, "view": told}
        return Response(answer, headers={"ETag": f'"{told["version"]}"'})

    def patch(self, request: Request, number: int) -> Response:
        body = self.body(request)
        return self.done(actions.rename_view(**self.asked(request, body), view=number, name=body["name"]))

    def delete(self, request: Request, number: int) -> Response:
        return self.done(actions.delete_view(**self.asked(request, self.body(request)), view=number))


class OpenWith(_Door):
    """`POST /api/v1/views/<number>/default`: let the page open with it, for oneself; a second time, without."""

    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, number: int) -> Response:
        return self.done(actions.open_with(**self.asked(request, self.body(request)), view=number))
