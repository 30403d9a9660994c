"""Saved views: a person saves, renames and deletes their own. No one else sees them, so there is nothing to audit."""

from __future__ import annotations

from django.db import transaction

from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.saved_views.models import QUERY_CHARS, SavedView

SCREENS = ("capacity", "breakers", "timelines", "escalations", "failures", "runs", "agents", "audit")
"""The pages, by the name of their address, that have something to save."""
NAME_CHARS = 60
MOST_OF_ONE = 100


def save_view(*, owner_id: int, environment: str, screen: str, name: str, query: str) -> SavedView:
    """Keep a page with its filters; under a name that the owner has there already, in its place.

    `query` is what stands behind the `?` of the page's address. Raises CommandRejected: 400 by field, 409 for too many.
    """
    name = _checked_name(name)
    if len(query) > QUERY_CHARS or not query.isprintable():
        raise _invalid("query", f"must have at most {QUERY_CHARS} printable characters")
    with transaction.atomic():
        own = SavedView.objects.filter(environment=environment, owner_id=owner_id)
        if own.exclude(screen=screen, name=name).count() >= MOST_OF_ONE:
            raise CommandRejected("too_many", f"You have {MOST_OF_ONE} views, the most; delete one.", status=CONFLICT)
        kept, _ = SavedView.objects.update_or_create(
            environment=environment, screen=screen, owner_id=owner_id, name=name, defaults={"query": query}
        )
    return kept


def rename_view(*, owner_id: int, environment: str, number: int, name: str) -> SavedView:
    """Give a view another name. Raises CommandRejected: 400, 404 also for somebody else's, 409 for a name in use."""
    name = _checked_name(name)
    with transaction.atomic():
        view = _own(owner_id, environment, number)
        others = SavedView.objects.filter(environment=environment, screen=view.screen, owner_id=owner_id, name=name)
        if others.exclude(pk=view.pk).exists():
            fields = {"name": "is in use by another of your views"}
            detail = f"You already have a view named {name}; use another name."
            raise CommandRejected("name_taken", detail, status=CONFLICT, fields=fields)
        view.name = name
        view.save(update_fields=["name"])
    return view


def delete_view(*, owner_id: int, environment: str, number: int) -> SavedView:
    """Delete a view; returns it as it was. Raises CommandRejected: 404 also for somebody else's."""
    view = _own(owner_id, environment, number)
    SavedView.objects.filter(pk=view.pk).delete()
    return view


def _own(owner_id: int, environment: str, number: int) -> SavedView:
    view = SavedView.objects.filter(environment=environment, owner_id=owner_id, pk=number).first()
    if view is None:
        raise CommandRejected(
            "unknown_view", f"View {number} does not exist.", status=NOT_FOUND, fields={"view": "is unknown"}
        )
    return view


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > NAME_CHARS or not name.isprintable():
        raise _invalid("name", f"must have 1 to {NAME_CHARS} printable characters")
    return name


def _invalid(field: str, fault: str) -> CommandRejected:
    return CommandRejected("invalid", f"{field} {fault}.", fields={field: fault})
