"""How a change is answered: the next page to look at, for a browser that follows redirects and for a dialog alike."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from events.pages import DIALOG, fragment_of
from recovery_ops.control.refusals import Held


class _SeeOther(HttpResponseRedirect):
    status_code = 303


def see_other(address: str) -> HttpResponse:
    """Send the browser on with a GET, so that reloading the next page repeats nothing."""
    return _SeeOther(address)


def changed(request: HttpRequest, address: str, notice: str) -> HttpResponse:
    """Say on the next page what was done. A dialog is told the address instead, or it would swallow the notice."""
    messages.success(request, notice)
    if fragment_of(request) == DIALOG:
        return HttpResponse(status=204, headers={"X-Location": address})
    return see_other(address)


def waits(request: HttpRequest, held: Held) -> HttpResponse:
    """Lead to the request that a second person has to agree to."""
    return changed(request, reverse("held-act", args=[held.request.number]), held.detail)
