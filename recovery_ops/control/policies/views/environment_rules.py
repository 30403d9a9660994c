"""The rules of an environment: whether it is production, and whose approval its changes need."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.settings_forms import SettingForm
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require, settings_page
from recovery_ops.control.policies.services import review


class RulesForm(SettingForm):
    """What holds in an environment. A box that was left as it was shown is not sent on, so that it undoes nothing that
    somebody else changed meanwhile.
    """

    is_production = forms.BooleanField(
        required=False,
        show_hidden_initial=True,
        label="Production",
        help_text="Overrides have to be confirmed by typing their name.",
    )
    is_review_needed = forms.BooleanField(
        required=False,
        show_hidden_initial=True,
        label="Policies need the approval of another user",
        help_text="Overrides and rollbacks never wait. Default: on in production.",
    )
    is_second_needed = forms.BooleanField(
        required=False,
        show_hidden_initial=True,
        label="Changes with wide reach need a second approver",
        help_text="Overrides of every breaker (production: of any), load shedding, policies. They wait up to an hour.",
    )
    break_glass = forms.BooleanField(
        required=False, label="Break-glass: do not wait for the second approver", help_text="Another user reviews it."
    )

    def __init__(self, *args: Any, current: dict[str, bool], **kwargs: Any) -> None:
        kwargs["initial"] = {**current, **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
        if not current["is_second_needed"]:
            del self.fields["break_glass"]

    def changes(self) -> dict[str, bool]:
        """The boxes that were ticked or cleared."""
        return {name: self.cleaned_data[name] for name in review.RULES if name in self.changed_data}

    def clean(self) -> dict[str, Any]:
        """At least one box has to be another."""
        cleaned = super().clean() or {}
        if not self.errors and not self.changes():
            raise forms.ValidationError("Nothing changed: tick or clear a box.")
        return {**cleaned, "changes": {} if self.errors else self.changes()}


@require_http_methods(["GET", "POST"])
def environment_rules(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What holds here; for admins a form to change it."""
    rules = EnvironmentRules.objects.filter(environment=environment).first()
    current = review.rules_in_force(environment, rules)
    beside = {"current": current, "is_review_needed": review.is_review_needed(environment)}
    if request.method == "GET" and not visit_of(request).grants.may("set_rules", environment):
        return settings_page(request, "policies/environment_rules", beside, here="environment-rules")
    require(request, "set_rules", environment)

    def carry_out(typed: dict[str, Any]) -> CommandResult[EnvironmentRules]:
        return review.set_rules(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            break_glass=typed.get("break_glass", False),
            **typed["changes"],
        )

    view = SettingsFormView(
        title="Environment",
        lead="",
        button="Save",
        here="environment-rules",
        back=reverse("environment-rules"),
        form=partial(RulesForm, current=current, is_reason_needed=needs_reason("environment.rules", environment)),
        carry_out=carry_out,
        told=lambda done: f"Rules of {environment} saved.",
        page="policies/environment_rules",
        beside=beside,
    )
    return answer(request, view)
