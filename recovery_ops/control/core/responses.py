"""How a change is answered: the next page to look at, for a browser that follows redirects and for a dialog alike."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from events.pages.rendering import DIALOG, fragment_of
from events.wording import clock_text
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.rejections import ApprovalPending
from recovery_ops.control.core.undo import Undo, tag_of

STILL_TYPED = "Your input is kept; sending it again applies it."
"""What a form says behind what others did meanwhile; it then carries the version of now."""


class _SeeOther(HttpResponseRedirect):
    status_code = 303


def see_other(address: str) -> HttpResponse:
    """Send the browser on with a GET, so that reloading the next page repeats nothing."""
    return _SeeOther(address)


def redirect_with_notice(
    request: HttpRequest, address: str, notice: str, *, faulty: Iterable[str] = (), undo: Undo | None = None
) -> HttpResponse:
    """Say on the next page what was done. A dialog is told the address instead, or it would swallow the notice.

    `faulty`: the fields for which nothing was done; the message has them as its tags. `undo`: what takes it back.
    """
    messages.success(request, notice, extra_tags=" ".join([*faulty, *([tag_of(undo)] if undo else [])]))
    if fragment_of(request) == DIALOG:
        return HttpResponse(status=204, headers={"X-Location": address})
    return see_other(address)


def redirect_to_request(request: HttpRequest, pending: ApprovalPending) -> HttpResponse:
    """Lead to the request that a second person has to agree to."""
    return redirect_with_notice(request, reverse("held-act", args=[pending.request.number]), pending.detail)


def cancelled_notice(done: CommandResult[Any], now: datetime) -> str:
    """Which planned windows a new one ended, as the end of a notice; empty where it ended none."""
    windows = [
        f"{clock_text(one.starts_at, today=now)} to {clock_text(one.expires_at, today=now)} ({one.by}: {one.reason})"
        for one in done.cancelled
    ]
    return f" It cancels these scheduled overrides: {'; '.join(windows)}." if windows else ""
