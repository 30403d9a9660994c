"""Who last changed what the live policy says of an operation: by the newest releases, each beside the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from recovery_ops.control.desired_state.document import LivePolicy
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.rules.policy.scope import Place, Scope

RELEASES_READ = 20


class Edit(NamedTuple):
    """The release that changed a rule, by whom and when."""

    version: int
    by: str
    at: datetime


def last_edits(environment: str, places: Mapping[str, str]) -> dict[str, Edit]:
    """By operation (given with its breaker) the newest release that changed, added or took away a rule about it, also
    about a part of the environment. An operation that the newest `RELEASES_READ` left alone is not in it. One query.
    """
    newest = PolicyRelease.objects.filter(environment=environment).order_by("-version")[: RELEASES_READ + 1]
    releases = list(newest)
    documents = [one.document for one in releases]
    if len(releases) <= RELEASES_READ:
        documents.append(LivePolicy.built_in().document)
    found: dict[str, Edit] = {}
    for release, (document, before) in zip(releases, pairwise(documents), strict=False):
        scopes = list(_changed(document, before))
        for operation, breaker in places.items():
            place = Place(service="", instance="", operation=operation, breaker=breaker)
            if operation not in found and any(scope.holds(place) for scope in scopes):
                found[operation] = Edit(release.version, release.by, release.created_at)
    return found


def _changed(document: Mapping[str, Any], before: Mapping[str, Any]) -> Iterable[Scope]:
    """The operations that the rules which are not the same in both speak of, wherever they do."""
    rules, earlier = (list(one.get("rules", ())) for one in (document, before))
    for rule in [*(one for one in rules if one not in earlier), *(one for one in earlier if one not in rules)]:
        operation = rule.get("scope", {}).get("operation")
        yield Scope(operation=operation) if isinstance(operation, str) else Scope()
