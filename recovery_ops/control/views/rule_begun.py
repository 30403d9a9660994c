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
from recovery_ops.control.actions.notifying_checks import CAUSES_MOST, FINGERPRINT_CHARS
from recovery_ops.control.models import NAME_CHARS
from recovery_ops.control.views.failures import matching_names

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
        return Begun(words=words, note="It is about this cause alone.")
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
        note = "It is about what the search asks for, also where it was never seen before."
        return Begun(words=words | {"name": _named(f"Failures {about}"), "triggers": _OF_ANY}, note=note)
    found = matching_names(request, environment, query, now)
    words |= {"name": "Failures of a search", "triggers": _OF_KNOWN, "causes": found[:CAUSES_MOST]}
    return Begun(words=words, note=_note(found))


def _note(found: Sequence[str]) -> str:
    if not found:
        return "The search finds no cause now: name one, or the rule is about every one."
    which = "the cause" if len(found) == 1 else f"the {count_text(len(found), 'cause')}"
    if len(found) > CAUSES_MOST:
        which = f"the {CAUSES_MOST} most frequent of the {len(found):,} causes"
    return f"It names {which} that the search finds now; what comes later and is another cause is not among them."


def _named(name: str) -> str:
    return name.strip()[:_RULE_NAME_CHARS]
