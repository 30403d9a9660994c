"""The keys of an environment: what each may do, when it ends and was last used; made, replaced and revoked."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.keys import SCOPES
from events.models import AgentKey
from events.moments import to_us
from events.wording import count_text, listing
from recovery_ops.control.access.forms import NewKeyForm, RevokeKeyForm, RotateKeyForm
from recovery_ops.control.access.selectors import KeyLine, key_line, keys_of
from recovery_ops.control.access.services import keys
from recovery_ops.control.access.services.keys import IssuedKey
from recovery_ops.control.access.sign_in.sessions import sign_in_again
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.pagination import page_of
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require, settings_page
from recovery_ops.control.dashboard.views.wallboard import WALL

MOST = 500


def key_list(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every key of the environment; those that are over come last."""
    now = timezone.now()
    lines = [key_line(key, now) for key in keys_of(environment)]
    shown = page_of(request, lines, _place, (int, str, int, int), MOST)
    context = {
        "now": now,
        "page": shown,
        "good": [line for line in shown.rows if line.is_good],
        "over": [line for line in shown.rows if not line.is_good],
        "sentence": _sentence(lines, environment),
    }
    return settings_page(request, "access/keys", context, here="keys")


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Make a key, and show its secret once."""
    require(request, "manage_keys", environment)
    if request.method == "GET" and (again := sign_in_again(request)):
        return again

    def carry_out(typed: dict[str, Any]) -> CommandResult[IssuedKey]:
        days = int(typed["days"]) if typed["days"] else None
        return keys.make_key(
            **_asked(request, environment, typed),
            name=typed["name"],
            scopes=typed["scopes"],
            days=days,
            requests_per_s=typed["requests_per_s"],
        )

    asking = SettingsFormView(
        title=f"New key for {environment}",
        lead="The secret is shown once and not stored.",
        button="Create key",
        here="keys",
        back=reverse("keys"),
        form=partial(_new_form, request.GET.get("scope", "")),
        carry_out=carry_out,
        shown=partial(_secret, request),
    )
    return answer(request, asking)


def _new_form(scope: str, *args: Any, **kwargs: Any) -> NewKeyForm:
    if "initial" in kwargs and scope in SCOPES:
        kwargs["initial"] = {**kwargs["initial"], "scopes": [scope]}
    return NewKeyForm(*args, **kwargs)


@require_http_methods(["GET", "POST"])
def rotate(request: HttpRequest, *, environment: str, prefix: str) -> HttpResponse:
    """Make a key like this one, and show its secret once; this one ends after an overlap."""
    require(request, "manage_keys", environment)
    key = _found(environment, prefix)
    if request.method == "GET" and (again := sign_in_again(request)):
        return again

    def carry_out(typed: dict[str, Any]) -> CommandResult[IssuedKey]:
        overlap_s = float(typed["overlap_s"])
        return keys.rotate_key(**_asked(request, environment, typed), prefix=prefix, overlap_s=overlap_s)

    asking = SettingsFormView(
        title=f"Rotate {key.name}",
        lead=f"A new key with the same permissions ({key.scopes}) replaces {prefix}….",
        button="Rotate key",
        here="keys",
        back=reverse("keys"),
        form=RotateKeyForm,
        carry_out=carry_out,
        shown=partial(_secret, request),
    )
    return answer(request, asking)


@require_http_methods(["GET", "POST"])
def revoke(request: HttpRequest, *, environment: str, prefix: str) -> HttpResponse:
    """Shut out whoever uses this key."""
    require(request, "manage_keys", environment)
    key = _found(environment, prefix)
    place = f" from {key.last_used_from}" if key.last_used_from else ""
    used = f"last used at {key.last_used_at:%Y-%m-%d %H:%M} UTC{place}" if key.last_used_at else "never used"
    asking = SettingsFormView(
        title=f"Revoke {key.name}",
        lead=f"Requests with {prefix}… are rejected within seconds. The key was {used}.",
        button="Revoke key",
        here="keys",
        back=reverse("keys"),
        form=partial(RevokeKeyForm, name=key.name),
        carry_out=lambda typed: keys.revoke(**_asked(request, environment, typed), prefix=prefix),
        told=lambda done: f"{key.name} ({prefix}…) revoked.",
    )
    return answer(request, asking)


def _asked(request: HttpRequest, environment: str, typed: dict[str, Any]) -> Any:
    return {
        "by": actor_of(request),
        "environment": environment,
        "reason": typed["reason"],
        "key": typed["key"] or None,
    }


def _secret(request: HttpRequest, done: CommandResult[IssuedKey]) -> HttpResponse:
    return settings_page(
        request, "access/key_secret", {"made": done.object, "is_wall": done.object.key.scopes == WALL}, here="keys"
    )


def _found(environment: str, prefix: str) -> AgentKey:
    key = AgentKey.objects.filter(environment=environment, prefix=prefix).first()
    if key is None:
        raise Http404(f"Key {prefix} does not exist in {environment}.")
    return key


def _place(line: KeyLine) -> tuple[int, str, int, int]:
    """Those that are over come last; by name, the newest of one name first."""
    return int(not line.is_good), line.key.name, -to_us(line.key.created_at), -line.key.pk


def _sentence(lines: Iterable[KeyLine], environment: str) -> str:
    good = [line for line in lines if line.is_good]
    if not good:
        return f"No active keys: agents cannot report to {environment}."
    ending = [line.key.name for line in good if line.standing == "expires soon"]
    told = f"{count_text(len(good), 'active key')} of {environment}."
    return f"{told} Expiring within 14 days: {listing(ending)}." if ending else told
