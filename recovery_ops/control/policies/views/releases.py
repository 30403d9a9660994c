"""The releases of a policy: which was live when and why, what each changed, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import count_text
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.differences import lines_of, written
from recovery_ops.control.core.environment import form_command_context, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state.document import LivePolicy, live_policy
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.services import releases as releases_services
from recovery_ops.control.policies.services import review as review_services

MOST = 50
_PERMISSIONS = {"roll-back": "roll_back_policy", "review": "approve_policy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One release and what has become of it: `live`, `superseded` or `rolled back`."""

    release: PolicyRelease
    state: str
    is_awaited: bool
    """Nobody approved it, and nobody has looked at it since."""


def releases(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The newest releases, or those before a version (`before=`); and whether a change has to be approved here."""
    before = parse_number(request.GET.get("before", ""))
    found = PolicyRelease.objects.filter(environment=environment).select_related("proposal", "review")
    if before is not None:
        found = found.filter(version__lt=before)
    shown = list(found.order_by("-version")[: MOST + 1])
    later = (
        PolicyRelease.objects.filter(environment=environment, version=shown[0].version + 1).first() if shown else None
    )
    number = live_policy(environment).version
    context = {
        "now": timezone.now(),
        "rows": rows_of(shown[:MOST], later),
        "older_href": f"?before={shown[MOST - 1].version}" if len(shown) > MOST else "",
        "sentence": f"Policy {number} is live." if shown else "No release yet; the default policy is live.",
        "is_review_needed": review_services.is_review_needed(environment),
    }
    return render_page(request, "policies/policy_releases", context)


def rows_of(releases: Sequence[PolicyRelease], later: PolicyRelease | None = None) -> list[Row]:
    """What became of each release (newest first); `later` is the one after the first of them."""
    rows = []
    for release in releases:
        state = "live" if later is None else "superseded" if later.returns_to is None else "rolled back"
        is_awaited = release.is_break_glass and not hasattr(release, "review")
        rows.append(Row(release=release, state=state, is_awaited=is_awaited))
        later = release
    return rows


@require_http_methods(["GET", "POST"])
def release(request: HttpRequest, *, environment: str, version: int) -> HttpResponse:
    """One release with what it changed; POST `act` rolls back to it (0: the built-in policy) or reviews it."""
    found = PolicyRelease.objects.filter(environment=environment, version=version).first()
    if found is None and version:
        raise Http404(f"{environment} has no policy {version}.")
    if request.method == "GET":
        form = ReasonForm(
            initial={"seen": current_revision(environment), "key": new_key()},
            is_reason_needed=needs_reason("policy.roll_back", environment),
        )
        return _page(request, environment, version, found, form)
    act = request.POST.get("act", "")
    if act not in _PERMISSIONS:
        raise Http404(f"`{act}` is not an action of releases.")
    if not visit_of(request).grants.may(_PERMISSIONS[act], environment):
        raise PermissionDenied(f"Your role lacks the permission for this action in {environment}.")
    return _carried_out(request, environment, version, found, act)


def _carried_out(
    request: HttpRequest, environment: str, version: int, found: PolicyRelease | None, act: str
) -> HttpResponse:
    verb = "release.review" if act == "review" else "policy.roll_back"
    form = ReasonForm(request.POST, is_reason_needed=needs_reason(verb, environment))
    if not form.is_valid():
        return _page(request, environment, version, found, form, status=UNPROCESSABLE)
    cleaned = form.cleaned_data
    asked = form_command_context(request, environment, cleaned, timezone.now()) | {"version": version}
    try:
        if act == "review":
            review_services.review_release(**asked)
            return redirect_with_notice(request, reverse("releases"), f"Policy {version} marked as reviewed.")
        done = releases_services.roll_back(**asked, seen=cleaned["seen"])
    except CommandRejected as rejection:
        if rejection.code == "forbidden":
            raise PermissionDenied(rejection.detail) from None
        add_errors(form, rejection.fields)
        return _page(request, environment, version, found, form, status=rejection.status, problem=rejection.detail)
    notice = f"Policy {done.object.version} is live: revision {done.revision}. It equals policy {version}."
    if done.was_already:
        notice = "The live policy already equals this release; nothing changed."
    return redirect_with_notice(request, reverse("policies"), notice)


def _page(
    request: HttpRequest,
    environment: str,
    version: int,
    found: PolicyRelease | None,
    form: ReasonForm,
    *,
    status: int = 200,
    problem: str = "",
) -> HttpResponse:
    live, built_in = live_policy(environment), LivePolicy.built_in().document
    document = built_in if found is None else found.document
    earlier = PolicyRelease.objects.filter(environment=environment, version=version - 1).first()
    later = PolicyRelease.objects.filter(environment=environment, version=version + 1).first()
    is_live = live.version == str(version) or (found is None and live.release is None)
    back = lines_of(live.document, document)
    context = {
        "now": timezone.now(),
        "version": version,
        "name": f"Policy {version}" if version else "Default policy",
        "release": found,
        "row": None if found is None else rows_of([found], later)[0],
        "form": form,
        "seen": current_revision(environment) if status == 409 or not form.is_bound else form["seen"].value(),
        "problem": problem,
        "lines": [] if found is None else lines_of(built_in if earlier is None else earlier.document, document),
        "back": [] if is_live else back,
        "is_live": is_live,
        "is_same": not back,
        "live": live,
        "text": written(document),
        "sentence": _sentence(found, is_live=is_live),
    }
    return render_page(request, "policies/policy_release", context, status=status)


def _sentence(found: PolicyRelease | None, *, is_live: bool) -> str:
    if found is None:
        return "Live until the first release."
    rules = found.document.get("rules", [])
    since = "Live" if is_live else "Formerly live"
    count = len(rules) if isinstance(rules, list) else 0
    return f"{since}, with {count_text(count, 'rule')} for parts of the environment."
