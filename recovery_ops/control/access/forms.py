"""Forms of keys and accounts."""

from __future__ import annotations

from typing import Any

from django import forms

from events.keys import MOST_REQUESTS_PER_S, SCOPES
from recovery_ops.control.access.account_names import NAME_CHARS as PERSON_CHARS
from recovery_ops.control.core.models.bases import EVERYWHERE, NAME_CHARS
from recovery_ops.control.core.numbers import NumberField
from recovery_ops.control.core.settings_forms import SettingForm
from recovery_ops.rules.roles import ROLES, Role

_DAYS = [("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("", "never")]


_OVERLAPS = [("0", "now"), ("3600", "in 1 h"), ("86400", "in 24 h"), ("604800", "in 7 days")]


_SCOPES = {
    "ingest": "ingest – send events",
    "desired": "desired – receive the desired state",
    "read": "read – read through the API",
    "act": "act – change breakers, policies and escalations through the API",
    "settings": "settings – manage notifications through the API",
    "wall": "wall – open the wallboard by a link",
    "admin": "admin – manage keys and users through the API",
}


class NewKeyForm(SettingForm):
    """A key for a program."""

    name = forms.CharField(
        max_length=NAME_CHARS,
        help_text="Purpose or owner of the key.",
        error_messages={"required": "The name is empty; enter a name."},
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope, _SCOPES[scope]) for scope in SCOPES],
        widget=forms.CheckboxSelectMultiple,
        initial=["ingest", "desired"],
        label="Permissions",
        error_messages={"required": "No permission is selected; select at least one."},
    )
    days = forms.ChoiceField(choices=_DAYS, initial="90", required=False, label="Expires after")
    requests_per_s = NumberField(
        required=False,
        min_value=0,
        max_value=MOST_REQUESTS_PER_S,
        label="Requests per second",
        help_text="Per permission and process. Empty: server default; 0: no limit.",
        error_messages={"invalid": "The value is not a whole number; use 20, or leave it empty."},
    )


class RotateKeyForm(SettingForm):
    """When the old key ends."""

    overlap_s = forms.ChoiceField(
        choices=_OVERLAPS,
        initial="86400",
        label="Expiry of the old key",
        help_text="Both keys work until then.",
    )


class RevokeKeyForm(SettingForm):
    """The name stops a slip of the hand: whoever uses the key is shut out."""

    confirm = forms.CharField(required=False)

    def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.fields["confirm"].label = f"Type {name} to confirm"
        self.fields["confirm"].widget.attrs["autocomplete"] = "off"

    def clean_confirm(self) -> str:
        """Exactly the name."""
        if self.cleaned_data["confirm"] != self._name:
            raise forms.ValidationError(f"The name does not match; type {self._name}.")
        return self._name


def role_choices() -> list[tuple[str, str]]:
    """The roles, from the one who may least."""
    return [(role.value, role.value) for role in ROLES]


class WhereForm(SettingForm):
    """In one environment, or in all of them."""

    where = forms.ChoiceField()

    def __init__(self, *args: Any, environment: str, may_everywhere: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        everywhere = [(EVERYWHERE, "all environments")] if may_everywhere else []
        field = self.fields["where"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  # declared above
        field.choices = [(environment, f"in {environment}"), *everywhere]
        self.order_fields([name for name in self.fields if name not in ("reason", "key")] + ["reason", "key"])


class NewPersonForm(WhereForm):
    """Somebody's account and their first role."""

    name = forms.CharField(
        max_length=PERSON_CHARS,
        help_text="Sign-in name, for example an e-mail address.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none"}),
        error_messages={"required": "The name is empty; enter a sign-in name."},
    )
    role = forms.ChoiceField(choices=role_choices, initial=Role.VIEWER.value)
    field_order = ("name", "role", "where")


class RoleForm(WhereForm):
    """Another role; `none` takes it away. Of all agents, or of one group of them."""

    role = forms.ChoiceField(choices=lambda: [*role_choices(), ("none", "none")])
    group = forms.CharField(
        required=False,
        max_length=PERSON_CHARS,
        label="Agent group",
        help_text="Empty: all agents.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none"}),
    )
    field_order = ("role", "group", "where")


class OwnEmailForm(forms.Form):
    """Where somebody is written to; empty: nowhere."""

    email = forms.EmailField(
        required=False,
        max_length=254,
        label="E-mail address",
        help_text="Empty: no messages.",
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
        error_messages={"invalid": "The value is not an e-mail address; use name@example.org."},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""


class NoteForm(SettingForm):
    """A reason alone."""
