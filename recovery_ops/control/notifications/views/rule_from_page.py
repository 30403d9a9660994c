"""A rule of the notifications begun on another page: about a cause, or about what a search of failures finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, QueryDict

from events.failures.naming import called_lately, cause_title
from events.failures.rows import Field
from events.wording import count_text
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.issues.views.issues import matching_names
from recovery_ops.control.notifications.services.checks import CAUSES_MOST, FINGERPRINT_CHARS

_OF_KNOWN = ["regressed", "failures_many"]
_OF_ANY = ["first_seen", *_OF_KNOWN]
_RULE_NAME_CHARS = 64
_QUERY_CHARS = 2000
_KEPT = {Field.OPERATION.value, Field.PROVIDER.value}
"""What a rule is narrowed by itself."""
_OF_THE_LIST = {"range", "from", "to", "tz", "environment", "sort", "columns", "widths", "cursor", "before", "view"}
"""What says how a list is shown, and not what stands in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What the form of a rule holds when it is opened, and what is said above it."""

    words: Mapping[str, Any]
    note: str


def begun_from(request: HttpRequest, environment: str, now: datetime) -> Begun | None:
    """What the address says a new rule is to be about; None where it says nothing."""
    causes = [one[:FINGERPRINT_CHARS] for one in request.GET.getlist("cause") if one.strip()][:CAUSES_MOST]
    if causes:
        name = cause_title(causes[0], called_lately(environment, causes[:1], now=now).get(causes[0]))
        words = {"name": _named(name), "triggers": _OF_KNOWN, "causes": causes}
        return Begun(words=words, note="The rule covers this issue only.")
    if "failures" in request.GET:
        return _of_search(request, environment, request.GET["failures"][:_QUERY_CHARS], now)
    return None


def _of_search(request: HttpRequest, environment: str, query: str, now: datetime) -> Begun:
    """By operation and provider where the search asks for nothing else, so that new causes are told of, too; else by
    the causes that it finds.
    """
    said = QueryDict(query)
    asked = {name for name, value in said.items() if value and name not in _OF_THE_LIST}
    words: dict[str, Any] = {}
    if operation := said.get(Field.OPERATION.value, ""):
        words["operation"] = operation[:NAME_CHARS]
    if provider := said.get(Field.PROVIDER.value, ""):
        words["providers"] = [provider[:NAME_CHARS]]
    if asked <= _KEPT:
        about = " ".join(one for one in (operation, provider and f"of {provider}") if one)
        note = "The rule covers the filters of the search, including new issues."
        return Begun(words=words | {"name": _named(f"Failures {about}"), "triggers": _OF_ANY}, note=note)
    found = matching_names(request, environment, query, now)
    words |= {"name": "Failures of a search", "triggers": _OF_KNOWN, "causes": found[:CAUSES_MOST]}
    return Begun(words=words, note=_note(found))


def _note(found: Sequence[str]) -> str:
    if not found:
        return "The search has no issues; enter one, or the rule covers all."
    which = "the issue" if len(found) == 1 else f"the {count_text(len(found), 'issue')}"
    if len(found) > CAUSES_MOST:
        which = f"the {CAUSES_MOST} most frequent of the {len(found):,} issues"
    return f"The rule covers {which} of the search; later issues are not included."


def _named(name: str) -> str:
    return name.strip()[:_RULE_NAME_CHARS]
