"""The form that chooses what is kept to from screen to screen; sent with GET, it leads back to where one was."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve, reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from events.pages.rendering import render_page
from events.pages.scoped import NAMES
from events.queries.backends import known_backends
from recovery_ops.control.core.filter_chips import WORDS

_LEFT_OUT = ("cursor", "before", "environment", "peek")


@require_safe
def scoped(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The form: a provider, a model, a service, for the page that `back` names and every screen after it."""
    path, query = _back(request.GET.get("back", ""))
    now = timezone.now()
    known = known_backends(environment, now=now)
    chosen = {name: value for name, value in query if name in NAMES}
    fields = [_field(name, getattr(known, f"{name}s"), chosen.get(name, "")) for name in NAMES]
    context = {
        "now": now,
        "fields": fields,
        "path": path,
        "kept": [(name, value) for name, value in query if name not in (*NAMES, *_LEFT_OUT)],
        "back": request.GET.get("back", "") if path != reverse("overview") or query else reverse("overview"),
    }
    return render_page(request, "core/scoped", context)


def _field(name: str, known: tuple[str, ...], chosen: str) -> tuple[str, str, str, list[str]]:
    """The name in addresses, the word, what is chosen, and what may be: that too, where nobody named it lately."""
    return name, WORDS[name].capitalize(), chosen, sorted({*known, *filter(None, [chosen])})


def _back(given: str) -> tuple[str, list[tuple[str, str]]]:
    """The page of the console that an address names, and what it says; of any other address the overview."""
    try:
        parts = urlsplit(given)
        resolve(parts.path)
    except (ValueError, Resolver404):
        return reverse("overview"), []
    if parts.scheme or parts.netloc or not parts.path.startswith("/") or "\\" in given:
        return reverse("overview"), []
    return parts.path, parse_qsl(parts.query)
