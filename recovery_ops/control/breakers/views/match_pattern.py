"""Breakers by a name or a pattern: which there are, and on to the page of the act, which says what it touches."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from events import queries
from events.pages.rendering import render_page
from recovery_ops.control.breakers.views.actions import ACTS, UNPROCESSABLE
from recovery_ops.control.core.checks import is_reported
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.forms import NamingForm, OverrideForm
from recovery_ops.rules.policy.scope import Scope

MOST_OFFERED = 200


def naming(request: HttpRequest, *, environment: str) -> HttpResponse:
    """A form for `name`, `verb` and `ahead`; where they can be meant, on to the page of that act."""
    if not visit_of(request).grants.may_in_part("trip", environment):
        raise PermissionDenied(f"Your role does not allow `trip` in {environment}.")
    is_asked = "verb" in request.GET
    first = {"name": request.GET.get("name", ""), "verb": "trip"}
    form = NamingForm(request.GET) if is_asked else NamingForm(initial=first)
    if is_asked and form.is_valid():
        name, verb, is_ahead = (form.cleaned_data[one] for one in ("name", "verb", "ahead"))
        if is_reported(environment, Scope(operation=name)):
            is_ahead = False
        elif ACTS[verb].form is not OverrideForm:
            form.add_error(
                "name", f"No instance in {environment} has reported {name}: {verb} needs a reported breaker."
            )
        elif not is_ahead:
            form.add_error(
                "name",
                f"No instance in {environment} has reported {name}. Check the name, or include unreported breakers.",
            )
        if not form.errors:
            return HttpResponseRedirect(reverse(f"breaker-{verb}", args=[name]) + ("?ahead=yes" if is_ahead else ""))
    names = [row.name for row in queries.breakers(environment, now=timezone.now())]
    context = {
        "form": form,
        "names": names[:MOST_OFFERED],
        "back": reverse("breakers"),
    }
    return render_page(request, "breakers/named", context, status=UNPROCESSABLE if form.errors else 200)
