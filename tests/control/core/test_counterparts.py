"""Whatever a person can do on a screen, a program can do by the API, or it is written down why not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from django.views.generic import RedirectView

from recovery_ops.control import api_urls
from recovery_ops.control.api_docs.screen_counterparts import FOR_BROWSERS_ALONE, NOT_ASKED_FOR, SCREENS, VERBS
from recovery_ops.control.core.actions import ACTIONS
from recovery_ops.control.core.api.requests import ApiView

CHANGES = ("post", "put", "patch", "delete")


def _patterns(patterns: list[Any]) -> Iterator[URLPattern]:
    for one in patterns:
        if isinstance(one, URLResolver):
            yield from _patterns(one.url_patterns)
        else:
            yield one


def _takes_a_form(view: Any) -> bool:
    """Whether a page does something with what is sent to it; every one of ours says POST where it does."""
    found = getattr(view, "view_class", None)
    if found is not None:
        return hasattr(found, "post") and not issubclass(found, RedirectView)
    while isinstance(view, partial) or hasattr(view, "__wrapped__"):
        view = view.func if isinstance(view, partial) else view.__wrapped__
    return "POST" in inspect.getsource(view)  # in capitals: a post-mortem is only read


def forms() -> set[str]:
    """The names of the console's own addresses that change something."""
    pages = [one for one in _patterns(get_resolver().url_patterns) if one not in api_urls.urlpatterns]
    return {str(one.name) for one in pages if one.name not in ("opamp", "metrics") and _takes_a_form(one.callback)}


def changing() -> set[str]:
    """The names of the API's addresses that change something."""
    found = set()
    for one in api_urls.urlpatterns:
        view = getattr(one.callback, "view_class", None)
        if view is not None and issubclass(view, ApiView) and any(hasattr(view, method) for method in CHANGES):
            found.add(str(one.name))
    return found


def test_every_form_of_the_console_has_its_counterpart_or_a_reason() -> None:
    known = {*SCREENS, *FOR_BROWSERS_ALONE}
    assert forms() - known == set(), "name its counterpart in recovery_ops/control/api_docs/screen_counterparts.py"
    assert known - forms() == set(), "there is no such form"
    assert not SCREENS.keys() & FOR_BROWSERS_ALONE.keys()
    assert len(forms()) > 60


def test_every_verb_of_the_audit_log_can_be_asked_for_or_has_a_reason() -> None:
    assert ACTIONS.keys() - {*VERBS, *NOT_ASKED_FOR} == set(), "say where the API does it"
    assert {*VERBS, *NOT_ASKED_FOR} - ACTIONS.keys() == set(), "there is no such verb"
    assert not VERBS.keys() & NOT_ASKED_FOR.keys()


def test_every_counterpart_is_an_address_that_changes_something() -> None:
    named = {*VERBS.values(), *(name for names in SCREENS.values() for name in names)}
    assert named - changing() == set()


def test_no_address_of_the_api_does_what_no_table_names() -> None:
    named = {*VERBS.values(), *(name for names in SCREENS.values() for name in names)}
    others = changing() - named
    assert others == {"api-unclassified-check", "api-escalation-edit"}, "what they change stands in no table"


@pytest.mark.parametrize("reason", sorted({*FOR_BROWSERS_ALONE.values(), *NOT_ASKED_FOR.values()}))
def test_a_reason_is_a_sentence(reason: str) -> None:
    assert len(reason.split()) >= 6
