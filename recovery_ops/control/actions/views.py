"""Saved views: kept, renamed, deleted, and chosen as what a page opens with. Agents need not hear of any of it."""

from __future__ import annotations

from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, require, version_of
from recovery_ops.control.models import AuditEntry, DefaultView, SavedView
from recovery_ops.control.models.views import QUERY_CHARS
from recovery_ops.control.refusals import FORBIDDEN, STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

SCREENS = ("capacity", "breakers", "timelines", "escalations", "failures", "runs", "agents", "audit")
"""The pages, by the name of their address, that have something to save."""
NAME_CHARS = 60
MOST_OF_ONE = 100
_NO_REASON = "a saved view"
_CHANGING = ("view.save", "view.rename")


class Viewing(Asked):
    """What every one of these is given. A view needs no reason; the one given stands in the audit log."""

    view: Required[int]


class Saving(Asked):
    """What `save_view` is given. `query` is what stands behind the `?` of the page's address."""

    screen: Required[str]
    name: Required[str]
    query: Required[str]
    is_team: NotRequired[bool]


def save_view(**asked: Unpack[Saving]) -> Done[SavedView]:
    """Keep a page with its filters; under a name that one has there already, in its place.

    Raises Refused: 403 also for a team view without `share_view`, 400 by field.
    """
    name, is_team = asked["name"].strip(), asked.get("is_team", False)
    faults = {"name": _fault_of_name(name), **_faults_of_place(asked["screen"], asked["query"])}
    attempt = _attempt("view.save", asked, name or "a view", faults, is_team=is_team)

    def write(revision: int) -> Step[SavedView]:
        owner = _owner(attempt)
        mine = SavedView.objects.filter(environment=attempt.environment, owner_id=owner)
        if mine.count() >= MOST_OF_ONE:
            raise Refused("too_many", f"You have {MOST_OF_ONE} views; delete one first.", status=STALE)
        kept, _ = SavedView.objects.update_or_create(
            environment=attempt.environment,
            screen=asked["screen"],
            owner_id=owner,
            name=name,
            defaults={"query": asked["query"], "is_team": is_team, "changed_at": attempt.now},
        )
        return Step(object=kept, revision=revision, after=_told(kept))

    return _carried_out(attempt, write)


class Renaming(Viewing):
    """What `rename_view` is given."""

    name: Required[str]


def rename_view(**asked: Unpack[Renaming]) -> Done[SavedView]:
    """Give one's own view another name. Raises Refused: 403 for somebody else's, 400, 404, 409 for a name one has."""
    name = asked["name"].strip()
    found = _found(asked)
    attempt = _attempt("view.rename", asked, found.name, {"name": _fault_of_name(name)}, is_team=found.is_team)

    def write(revision: int) -> Step[SavedView]:
        view = _own(found, attempt)
        others = SavedView.objects.filter(environment=view.environment, screen=view.screen, owner_id=view.owner_id)
        if others.filter(name=name).exclude(pk=view.pk).exists():
            fields = {"name": "is that of another view of yours"}
            raise Refused("name_taken", f"You have a view called {name}.", status=STALE, fields=fields)
        attempt.check_seen(version_of_view(view), _CHANGING)
        before = _told(view)
        view.name, view.changed_at = name, attempt.now
        view.save(update_fields=["name", "changed_at"])
        return Step(object=view, revision=revision, before=before, after=_told(view))

    return _carried_out(attempt, write)


def delete_view(**asked: Unpack[Viewing]) -> Done[SavedView]:
    """Forget a view; whoever opened the page with it opens it without. Raises Refused: 403 for somebody else's, 404."""
    found = _found(asked)
    attempt = _attempt("view.delete", asked, found.name, is_team=found.is_team)

    def write(revision: int) -> Step[SavedView]:
        view = _own(found, attempt)
        attempt.check_seen(version_of_view(view), _CHANGING)
        before = _told(view)
        SavedView.objects.filter(pk=view.pk).delete()
        return Step(object=view, revision=revision, before=before)

    return _carried_out(attempt, write)


def open_with(**asked: Unpack[Viewing]) -> Done[SavedView]:
    """Let a page open with this view, for oneself; a second time, without. Raises Refused: 403, 404."""
    found = _found(asked)
    attempt = _attempt("view.default", asked, found.name)

    def write(revision: int) -> Step[SavedView]:
        place: dict[str, Any] = {"user_id": _owner(attempt), "environment": found.environment, "screen": found.screen}
        held = DefaultView.objects.filter(**place).first()
        if held is not None and held.view_id == found.pk:
            held.delete()
            return Step(object=found, revision=revision, before=_told(found))
        DefaultView.objects.update_or_create(**place, defaults={"view": found})
        return Step(object=found, revision=revision, after=_told(found))

    return _carried_out(attempt, write)


def version_of_view(view: SavedView) -> int:
    """What `seen` is compared with: another one after whatever is done to the view."""
    return version_of(view.pk, view.name, view.query, view.is_team, view.changed_at)


def _attempt(
    verb: str, asked: Any, about: str, faults: dict[str, str] | None = None, *, is_team: bool = False
) -> Attempt:
    given = {**asked, "reason": asked["reason"] or _NO_REASON}
    permission = "share_view" if is_team else "see"
    return Attempt.of(verb, permission, Scope(), given, faults, about=about, is_for_agents=False)  # type: ignore[arg-type]  # the same keywords


def _carried_out(attempt: Attempt, write: Any) -> Done[SavedView]:
    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> SavedView:
    kept = entry.after or entry.before
    found = SavedView.objects.filter(pk=kept["id"]).first()
    return found or SavedView(environment=entry.environment, screen=kept["screen"], name=kept["name"])


def _found(asked: Any) -> SavedView:
    """A view of one's own, or one of the team. Another's private one is not there, not even as a refusal."""
    by = asked["by"]
    require(by, "see", asked["environment"])
    view = SavedView.objects.filter(environment=asked["environment"], pk=asked["view"]).first()
    if view is None or not (view.is_team or view.owner_id == by.user_id):
        raise Refused("unknown_view", "There is no such view.", status=UNKNOWN, fields={"view": "is not known"})
    return view


def _own(view: SavedView, attempt: Attempt) -> SavedView:
    if view.owner_id != attempt.by.user_id and not attempt.by.may("manage_accounts", attempt.environment):
        raise Refused("not_yours", "It is somebody else’s; save one of your own.", status=FORBIDDEN)
    return view


def _owner(attempt: Attempt) -> int:
    if attempt.by.user_id is None:
        raise Refused("not_a_person", "Views are people’s; a key has none.", status=FORBIDDEN)
    return attempt.by.user_id


def _told(view: SavedView) -> dict[str, Any]:
    return {"id": view.pk, "screen": view.screen, "name": view.name, "query": view.query, "is_team": view.is_team}


def _fault_of_name(name: str) -> str:
    fits = name and len(name) <= NAME_CHARS and name.isprintable()
    return "" if fits else f"has to have 1 to {NAME_CHARS} characters that can be shown"


def _faults_of_place(screen: str, query: str) -> dict[str, str]:
    is_long = len(query) > QUERY_CHARS or not query.isprintable()
    return {
        "screen": "" if screen in SCREENS else f"is one of {', '.join(SCREENS)}",
        "query": f"has at most {QUERY_CHARS} characters that can be shown" if is_long else "",
    }
