"""What people type, checked before an action is asked: how long, why, where, and the settings of one operation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.core.validators import MinLengthValidator
from django.http import QueryDict
from django.utils import timezone

from events.wording import zone_word
from recovery_ops.control.core.checks import LEAST_REASON_CHARS
from recovery_ops.control.core.models.bases import REASON_CHARS
from recovery_ops.control.core.numbers import NumberField
from recovery_ops.control.core.production import is_production
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.policy.settings import SETTINGS, Setting, fault_of

EXPIRIES: list[tuple[int, str]] = [(600, "10 m"), (1800, "30 m"), (3600, "1 h"), (14_400, "4 h"), (86_400, "24 h")]
DEFAULT_EXPIRY_S = 3600
CUSTOM = "custom"
"""Among the durations: an end that is typed."""
_LOCAL_TIME = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"]
WHERE = [
    ("all", "All services"),
    ("service", "Service"),
    ("group", "Group"),
    ("instance", "Instance"),
    ("parts", "Combination"),
]
PARTS = ("service", "group", "instance")
MAIN_SETTINGS = ("max_retries", "max_retries_background", "base_delay_s", "retry_capacity_errors")
"""What the form of one operation shows at once; the other settings are folded away."""


class ReasonField(forms.CharField):
    """A reason. Optional, until `require` is called for a change that needs one (`reasons.needs_reason`)."""

    def __init__(self, **kwargs: Any) -> None:
        messages = {
            "required": f"Enter a reason of at least {LEAST_REASON_CHARS} characters.",
            "min_length": f"The reason is too short; use at least {LEAST_REASON_CHARS} characters.",
            "max_length": f"The reason is too long; use at most {REASON_CHARS} characters.",
        }
        super().__init__(required=False, max_length=REASON_CHARS, error_messages=messages, **kwargs)

    def require(self) -> None:
        """Refuse an empty or short reason."""
        self.required = self.widget.is_required = True
        self.min_length = LEAST_REASON_CHARS
        self.validators.append(MinLengthValidator(LEAST_REASON_CHARS))
        self.widget.attrs["minlength"] = str(LEAST_REASON_CHARS)


class ReasonForm(forms.Form):
    """A reason, the revision its author was looking at, and a key against sending twice.

    `is_reason_needed`: the change needs one, by `reasons.needs_reason`. Where that depends on what the form says, the
    service decides. `break_glass` is offered only where a change takes two persons.
    """

    reason = ReasonField()
    seen = NumberField(required=False)
    break_glass = forms.BooleanField(required=False)
    key = forms.CharField(max_length=64, required=False)

    def __init__(self, *args: Any, is_reason_needed: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if is_reason_needed:
            cast("ReasonField", self.fields["reason"]).require()


class ExtendForm(ReasonForm):
    """When an override ends: a duration, or a moment on the reader's clock. `expires_in_s` is in seconds either way."""

    expires_in_s = forms.TypedChoiceField(
        choices=[*EXPIRIES, (CUSTOM, "Custom")],
        coerce=lambda typed: typed if typed == CUSTOM else int(typed),
        error_messages={"required": "Select a duration.", "invalid_choice": "Select one of the durations."},
    )
    ends_at = forms.DateTimeField(required=False, input_formats=_LOCAL_TIME)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone, field = zone_word(timezone.now()), self.fields["ends_at"]
        field.help_text = zone
        field.error_messages["invalid"] = f"Enter a time in {zone}, such as 2026-01-31T22:00."

    @property
    def shown_expiry(self) -> str:
        """The length to mark as chosen: what was typed, the usual one where that is none of those offered."""
        typed = str(self["expires_in_s"].value())
        return typed if typed in {str(value) for value, _ in [*EXPIRIES, (CUSTOM, "")]} else str(DEFAULT_EXPIRY_S)

    def clean_ends_at(self) -> datetime | None:
        """A typed end becomes the duration, counted as the others are: from the start, where that is typed, too."""
        ends_at: datetime | None = self.cleaned_data["ends_at"]
        if self.cleaned_data.get("expires_in_s") != CUSTOM:
            return ends_at
        self.cleaned_data["expires_in_s"] = None
        if ends_at is None:
            raise forms.ValidationError("Enter the end, or select a duration.", code="required")
        now = timezone.now()
        begins_at = None if self.data.get("act") == "extend" else self.cleaned_data.get("starts_at")
        lasts_s = (ends_at - max(now, begins_at or now)).total_seconds()
        if lasts_s <= 0:
            raise forms.ValidationError("The end is not after the start.", code="past")
        self.cleaned_data["expires_in_s"] = lasts_s
        return ends_at


class BeginForm(forms.Form):
    """When an override begins: a moment on the reader's clock, or nothing for at once."""

    starts_at = forms.DateTimeField(required=False, input_formats=_LOCAL_TIME)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone, field = zone_word(timezone.now()), self.fields["starts_at"]
        field.help_text = f"{zone}; empty: now"
        field.error_messages["invalid"] = f"Enter a time in {zone}, such as 2026-01-31T22:00, or leave it empty."

    def starts_in_s(self, now: datetime) -> float:
        """How long until it begins, in seconds; 0 for at once and for a moment that has just gone by."""
        starts_at: datetime | None = self.cleaned_data.get("starts_at")
        return 0.0 if starts_at is None else max(0.0, (starts_at - now).total_seconds())

    def clean_starts_at(self) -> datetime | None:
        """A moment long gone is a slip of the hand."""
        starts_at: datetime | None = self.cleaned_data["starts_at"]
        if starts_at is not None and starts_at < timezone.now() - timedelta(minutes=5):
            raise forms.ValidationError("The start is in the past; use a later time or leave it empty.", code="past")
        return starts_at


class ScopeForm(ReasonForm):
    """A reason and which part of the environment: everything, a service, a group, an instance, or several together.

    `*` in a name stands for anything, as in every scope.
    """

    scope = forms.ChoiceField(
        choices=WHERE, error_messages={"required": "Select a scope.", "invalid_choice": "Select a scope."}
    )
    service = forms.CharField(max_length=200, required=False)
    group = forms.CharField(max_length=200, required=False)
    instance = forms.CharField(max_length=200, required=False)

    def clean(self) -> dict[str, Any]:
        """One service needs its name, and so does one group or instance."""
        cleaned: dict[str, Any] = self.cleaned_data
        where = cleaned.get("scope")
        if where in PARTS and not cleaned.get(where):
            self.add_error(where, f"Enter the {where}.")
        if where == "parts" and not any(cleaned.get(part) for part in PARTS):
            self.add_error("scope", "Enter at least one of service, group and instance.")
        return cleaned

    def where(self) -> dict[str, str]:
        """The parts of the environment that are meant, by name; empty: all of it."""
        said = self.cleaned_data
        meant = PARTS if said.get("scope") == "parts" else (said.get("scope"),)
        return {part: said[part] for part in PARTS if part in meant and said.get(part)}

    def scope_of(self, breaker: str) -> Scope:
        """The scope of rules.scope that the choice stands for."""
        return Scope(operation=breaker, **self.where())


class OverrideForm(ScopeForm, ExtendForm, BeginForm):
    """Trip, disable or observe. `confirm` has to repeat the breaker's name in production, and the environment's where
    every breaker of everybody is meant. `ahead` allows what nobody has reported yet.
    """

    ahead = forms.BooleanField(required=False)
    confirm = forms.CharField(max_length=200, required=False)

    def __init__(self, *args: Any, typed: str, for_a_part: bool, for_all: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._typed, self._for_a_part = typed, for_a_part
        if not (for_a_part or for_all):
            del self.fields["confirm"]

    def clean(self) -> dict[str, Any]:
        """The name stops a slip of the hand where everybody would feel it."""
        cleaned = super().clean()
        is_felt = self._for_a_part or cleaned.get("scope") == "all"
        if "confirm" in self.fields and is_felt and cleaned.get("confirm", "") != self._typed:
            self.add_error("confirm", f"Type {self._typed} exactly as shown.")
        return cleaned


class BulkForm(ScopeForm, ExtendForm, BeginForm):
    """One verb for several breakers. `confirm` has to name the environment in production, `ahead` is as for one."""

    ahead = forms.BooleanField(required=False)
    verb = forms.ChoiceField(
        choices=[
            ("trip", "Trip"),
            ("disable", "Disable"),
            ("observe", "Observe"),
            ("release", "Clear override"),
            ("extend", "Extend"),
            ("reset", "Reset"),
        ],
        error_messages={"required": "Select an action.", "invalid_choice": "Select an action."},
    )
    name = forms.MultipleChoiceField(
        error_messages={
            "required": "Select at least one breaker.",
            "invalid_choice": "%(value)s is not a breaker of this environment.",
        }
    )
    confirm = forms.CharField(max_length=200, required=False)

    def __init__(self, *args: Any, names: Sequence[str], environment: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].choices = [(one, one) for one in names]  # type: ignore[attr-defined]
        self.fields["expires_in_s"].required = False
        self._environment = environment
        if not is_production(environment):
            del self.fields["confirm"]

    def clean(self) -> dict[str, Any]:
        """A length is needed for what holds for a time; the environment's name where everybody would feel it."""
        cleaned = super().clean()
        if (
            cleaned.get("verb") not in ("reset", "release")
            and not cleaned.get("expires_in_s")
            and not {"expires_in_s", "ends_at"} & self.errors.keys()
        ):
            self.add_error("expires_in_s", "Select a duration.")
        is_felt = cleaned.get("verb") in ("trip", "disable", "observe")
        if "confirm" in self.fields and is_felt and cleaned.get("confirm") != self._environment:
            self.add_error("confirm", f"Type {self._environment} exactly as shown.")
        return cleaned


class NamingForm(forms.Form):
    """Which breakers, by a name or a pattern, and what is to be done to them on the page that follows."""

    name = forms.CharField(
        max_length=200, error_messages={"required": "Enter a breaker name or a pattern, such as model:*."}
    )
    verb = forms.ChoiceField(
        choices=[
            ("trip", "Trip"),
            ("disable", "Disable"),
            ("observe", "Observe"),
            ("reset", "Reset"),
            ("probe", "Probe"),
        ],
        error_messages={"required": "Select an action.", "invalid_choice": "Select an action."},
    )
    ahead = forms.BooleanField(required=False)


class ShedForm(ExtendForm, BeginForm):
    """What is to happen to less important work, until when, and the environment's name: everybody in it feels it."""

    act = forms.ChoiceField(error_messages={"required": "Select an action.", "invalid_choice": "Select an action."})
    confirm = forms.CharField(max_length=200, required=False)

    SHED = (("critical", "Shed sheddable and sheddable-plus calls"), ("sheddable_plus", "Shed sheddable calls only"))
    HELD = (("pass", "Stop load shedding"), ("extend", "Extend load shedding"))

    def __init__(
        self,
        *args: Any,
        environment: str,
        is_shedding: bool,
        ahead: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        """`ahead`: the id of each that is to begin, and from when until when."""
        super().__init__(*args, **kwargs)
        offered = [*self.HELD] if is_shedding else []
        offered += [(f"pass:{one}", f"Cancel schedule {when}") for one, when in ahead]
        self.fields["act"].choices = [*offered, *self.SHED]  # type: ignore[attr-defined]
        self.fields["expires_in_s"].required = False
        self._environment = environment

    def clean(self) -> dict[str, Any]:
        """Letting everything pass needs no end, and neither that nor going on a confirmation."""
        cleaned: dict[str, Any] = self.cleaned_data
        act = cleaned.get("act")
        is_end_needed = bool(act) and not str(act).startswith("pass")
        is_faulty = {"expires_in_s", "ends_at"} & self.errors.keys()
        if is_end_needed and not cleaned.get("expires_in_s") and not is_faulty:
            self.add_error("expires_in_s", "Select a duration.")
        if act in dict(self.SHED) and cleaned.get("confirm") != self._environment:
            self.add_error("confirm", f"Type {self._environment} exactly as shown.")
        return cleaned


def new_key() -> str:
    """An idempotency key for a form that is about to be shown."""
    return secrets.token_urlsafe(16)


# -- the settings of one operation -------------------------------------------------------------------------------------
@dataclass(slots=True, kw_only=True)
class SettingValueField:
    """One setting as the form shows it. `value` is the text in the field, empty for "not said here"."""

    name: str
    label: str
    hint: str
    unit: str
    value: str
    effective: str
    set_by: str
    choices: tuple[tuple[str, str], ...] = ()
    errors: list[str] = field(default_factory=list)


def label_of(name: str) -> str:
    """What a setting is called on a screen: its word of the rules without the unit."""
    return name.removesuffix("_s").removesuffix("_usd").replace("_", " ").capitalize()


def choices_of(setting: Setting) -> tuple[tuple[str, str], ...]:
    """What may be chosen where typing is not needed; nothing for numbers."""
    unsaid = ("", "not set")
    if setting.kind == "flag":
        return (unsaid, ("yes", "yes"), ("no", "no"))
    if setting.kind == "word":
        return (unsaid, *((word, word.replace("_", " ")) for word in setting.words))
    return ()


def parse_settings(data: QueryDict) -> tuple[dict[str, object], dict[str, str]]:
    """The settings a form states, None where the field was left empty, and the fault of each that is none."""
    values: dict[str, object] = {}
    faults: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        text = data.get(name, "").strip()
        value = parse_setting(setting, text)
        fault = fault_of(setting, value) if text else ""
        if fault:
            faults[name] = f"{label_of(name)} {fault}."
        else:
            values[name] = value
    return values, faults


def parse_setting(setting: Setting, text: str) -> object:
    """The value that a text stands for, None for an empty one; the text itself where `fault_of` has to refuse it."""
    if not text:
        return None
    if setting.kind == "flag":
        return {"yes": True, "no": False}.get(text, text)
    if setting.kind == "word":
        return text
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return text
    if setting.kind == "whole":
        return int(number) if number.is_integer() else number
    return number


def format_value(value: object) -> str:
    """The text of a field that would be read back as this value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def add_errors(form: forms.Form, fields: Mapping[str, str]) -> list[str]:
    """Put what an action refused beside the fields it speaks of; return what has no field here."""
    elsewhere = []
    for name, message in fields.items():
        if name in form.fields:
            form.add_error(name, message)
        else:
            elsewhere.append(f"{name}: {message}")
    return elsewhere
