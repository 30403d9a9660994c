"""What people type on the pages of the settings, checked before an action is asked."""

from __future__ import annotations

from typing import Any

from django import forms

from events.keys import MOST_REQUESTS_PER_S, SCOPES
from recovery_ops.control.account_names import NAME_CHARS as PERSON_CHARS
from recovery_ops.control.models import EVERYWHERE, NAME_CHARS
from recovery_ops.control.numbers import NumberField
from recovery_ops.control.roles import ROLES, Role

_DAYS = [("30", "30 days"), ("90", "90 days"), ("365", "a year"), ("", "for ever")]
_OVERLAPS = [("0", "at once"), ("3600", "in 1 h"), ("86400", "in 24 h"), ("604800", "in 7 days")]
_SCOPES = {
    "ingest": "ingest – send facts",
    "desired": "desired – follow what agents are to do",
    "read": "read – ask the API",
    "act": "act – trip, release, edit and answer through the API",
    "settings": "settings – set up notifications through the API; it can send what happens here elsewhere",
    "wall": "wall – open the wallboard with a link, without a sign-in, and nothing else",
    "admin": "admin – make keys and accounts through the API; whoever holds it can let anybody in here",
}


class SettingForm(forms.Form):
    """A reason, a key against sending twice, and what the act itself asks for: that comes first."""

    reason = forms.CharField(
        min_length=10,
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="At least 10 characters. Kept in the audit log.",
        error_messages={
            "required": "Say why, in at least 10 characters.",
            "min_length": "Say a little more: at least 10 characters.",
            "max_length": "Keep it to 500 characters.",
        },
    )
    key = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        self.order_fields([name for name in self.fields if name not in ("reason", "key")] + ["reason", "key"])


class NewKeyForm(SettingForm):
    """A key for a program."""

    name = forms.CharField(
        max_length=NAME_CHARS, help_text="What or whom it is for.", error_messages={"required": "Give it a name."}
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope, _SCOPES[scope]) for scope in SCOPES],
        widget=forms.CheckboxSelectMultiple,
        initial=["ingest", "desired"],
        label="It may",
        error_messages={"required": "Choose at least one thing that it may do."},
    )
    days = forms.ChoiceField(choices=_DAYS, initial="90", required=False, label="It is good for")
    requests_per_s = NumberField(
        required=False,
        min_value=0,
        max_value=MOST_REQUESTS_PER_S,
        label="Requests a second",
        help_text="For each thing that it may, to each process. Empty: as the server is set up; 0: without a limit.",
        error_messages={"invalid": "Say a whole number, or nothing."},
    )


class RotateKeyForm(SettingForm):
    """When the old key ends."""

    overlap_s = forms.ChoiceField(
        choices=_OVERLAPS,
        initial="86400",
        label="The old key ends",
        help_text="Until then both are good: bring the new one to every program first.",
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
            raise forms.ValidationError(f"Type {self._name} exactly as it stands here.")
        return self._name


def role_choices() -> list[tuple[str, str]]:
    """The roles, from the one who may least."""
    return [(role.value, role.value) for role in ROLES]


class WhereForm(SettingForm):
    """In one environment, or in all of them."""

    where = forms.ChoiceField()

    def __init__(self, *args: Any, environment: str, may_everywhere: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        everywhere = [(EVERYWHERE, "in every environment")] if may_everywhere else []
        field = self.fields["where"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  # declared above
        field.choices = [(environment, f"in {environment}"), *everywhere]
        self.order_fields([name for name in self.fields if name not in ("reason", "key")] + ["reason", "key"])


class NewPersonForm(WhereForm):
    """Somebody's account and their first role."""

    name = forms.CharField(
        max_length=PERSON_CHARS,
        help_text="What they sign in with, for example their e-mail address.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none"}),
        error_messages={"required": "Give the name that they sign in with."},
    )
    role = forms.ChoiceField(choices=role_choices, initial=Role.VIEWER.value)
    field_order = ("name", "role", "where")


class RoleForm(WhereForm):
    """Another role; `none` takes it away. Of all agents, or of one group of them."""

    role = forms.ChoiceField(choices=lambda: [*role_choices(), ("none", "none")])
    group = forms.CharField(
        required=False,
        max_length=PERSON_CHARS,
        label="Only for the agents of group",
        help_text="Empty: for all agents.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none"}),
    )
    field_order = ("role", "group", "where")


class OwnEmailForm(forms.Form):
    """Where somebody is written to; empty: nowhere."""

    email = forms.EmailField(
        required=False,
        max_length=254,
        label="E-mail address",
        help_text="Empty: nobody writes to you.",
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
        error_messages={"invalid": "This is no e-mail address."},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""


class NoteForm(SettingForm):
    """A reason alone."""
