"""What people type about channels, rules and chains, checked before an action is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django import forms

from recovery_ops.control.core.forms import DEFAULT_EXPIRY_S, EXPIRIES
from recovery_ops.control.core.numbers import NumberField
from recovery_ops.control.core.settings_forms import SettingForm
from recovery_ops.control.notifications.models.digests import Digest
from recovery_ops.control.notifications.models.notifications import Channel, EscalationChain, NotificationRule
from recovery_ops.control.notifications.recipients import called
from recovery_ops.control.notifications.services.checks import BOUNDS
from recovery_ops.control.notifications.triggers import TRIGGERS
from recovery_ops.rules.notifications.digests import WEEKDAYS
from recovery_ops.rules.notifications.escalation_levels import EVERYBODY
from recovery_ops.rules.notifications.grouping import Severity

CHAIN_ROWS = 6
_PREVIEWED_FROM, _PREVIEWED_TO = 2000, 2200
KIND_WORDS = {
    Channel.SLACK: "Slack or compatible incoming webhook (Mattermost, Rocket.Chat)",
    Channel.WEBHOOK: "Webhook: signed JSON",
    Channel.EMAIL: "E-mail",
    Channel.PAGERDUTY: "PagerDuty: trigger, acknowledge and resolve events",
    Channel.PEOPLE: "E-mail to users: address of the account",
}
_ADDRESS = {
    Channel.SLACK: ("Incoming webhook", "The URL of the incoming webhook. It is a secret."),
    Channel.WEBHOOK: ("Address", "Target of the JSON, https://…"),
    Channel.EMAIL: ("Receivers", "E-mail addresses, separated by commas."),
    Channel.PAGERDUTY: (
        "Address",
        "Default: PagerDuty US. EU: https://events.eu.pagerduty.com/v2/enqueue",
    ),
}
_SECRET = {
    Channel.WEBHOOK: ("Signing secret", "At least 16 characters; verifies the signature."),
    Channel.PAGERDUTY: ("Routing key", "The integration key of the service, Events API v2."),
}
_SEVERITIES = [(one.value, one.value) for one in Severity]
_WHOLE = {
    "failures": ("Failure threshold", "Number of failures."),
    "within_min": ("Failure window, minutes", "Used by the trigger “failure threshold reached”."),
    "expiry_lead_min": ("Override expiry lead time, minutes", ""),
    "group_s": ("Grouping, seconds", "Events of this time form one message; 0 sends each event."),
}


class ChannelForm(SettingForm):
    """One channel; which fields it has depends on its kind. What it holds is never shown: an empty field keeps it."""

    name = forms.CharField(max_length=64, error_messages={"required": "The name is empty; enter a name."})
    address = forms.CharField(max_length=2000, required=False, widget=forms.TextInput(attrs={"autocomplete": "off"}))
    secret = forms.CharField(
        max_length=500, required=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    is_on = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = NumberField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, kind: str, channel: Channel | None = None, **kwargs: Any) -> None:
        if channel is not None:
            shown: dict[str, Any] = {"name": channel.name, "is_on": channel.is_on, "version": channel.version}
            if channel.kind == Channel.EMAIL:
                shown["address"] = channel.address
            kwargs["initial"] = {**shown, **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
        keeps = " Empty: the stored value stays." if channel is not None and kind != Channel.EMAIL else ""
        if kind in _ADDRESS:
            label, hint = _ADDRESS[kind]
            self.fields["address"].label, self.fields["address"].help_text = label, hint + keeps
        else:
            del self.fields["address"]
        if kind in _SECRET:
            label, hint = _SECRET[kind]
            self.fields["secret"].label, self.fields["secret"].help_text = label, hint + keeps
        else:
            del self.fields["secret"]


class NamesField(forms.CharField):
    """Names, one a line; a list of them when it is read and when it is shown."""

    widget = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=10_000, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """One a line."""
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> Any:
        """Each once, in their order."""
        said = super().clean(value)
        return list(dict.fromkeys(line.strip() for line in said.split("\n") if line.strip()))


class RuleForm(SettingForm):
    """What one channel is told, about what, and when it is quiet."""

    name = forms.CharField(max_length=64, error_messages={"required": "The name is empty; enter a name."})
    channel = forms.TypedChoiceField(coerce=int, error_messages={"required": "No channel is selected; select one."})
    triggers = forms.MultipleChoiceField(
        choices=list(TRIGGERS.items()),
        widget=forms.CheckboxSelectMultiple,
        label="Triggers",
        help_text="The end of an open subject is always sent.",
        error_messages={"required": "No trigger is selected; select at least one."},
    )
    operation = forms.CharField(max_length=200, initial="*", help_text="A name or a pattern with *.")
    queue = forms.CharField(
        max_length=200, initial="*", label="Escalation queue", help_text="A name or a pattern with *."
    )
    causes = NamesField(
        label="Issues",
        help_text="Fingerprints, one per line; empty: all. Only triggers about issues are allowed with fingerprints.",
    )
    providers = NamesField(
        label="Providers",
        help_text="Names or patterns with *, one per line; empty: all. An operation belongs to the providers of its "
        "calls in the last day.",
    )
    least_severity = forms.ChoiceField(choices=_SEVERITIES, initial="info", label="Minimum severity")
    failures = NumberField(initial=100)
    within_min = NumberField(initial=5)
    expiry_lead_min = NumberField(initial=10)
    group_s = NumberField(initial=10)
    quiet_from = forms.TimeField(
        required=False, label="Quiet hours start", widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    quiet_to = forms.TimeField(
        required=False,
        label="Quiet hours end",
        widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        help_text="Held messages are sent afterwards. Ends of open subjects are sent at once.",
    )
    quiet_zone = forms.CharField(max_length=64, initial="UTC", label="Time zone", help_text="Example: Europe/Rome.")
    quiet_passes = forms.ChoiceField(
        choices=_SEVERITIES, initial="critical", label="Severity that bypasses quiet hours"
    )
    is_on = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = NumberField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, channels: Iterable[Channel], rule: NotificationRule | None = None, **kwargs: Any
    ) -> None:
        if rule is not None:
            words = {name: getattr(rule, name) for name in (*self.base_fields,) if hasattr(rule, name)}
            kwargs["initial"] = {**words, "channel": rule.channel_id, **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
        field = self.fields["channel"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  # declared above
        telling = [one for one in channels if one.kind != Channel.PEOPLE]  # only a chain names people
        field.choices = [(one.pk, f"{one.name} ({one.get_kind_display()})") for one in telling]
        for name, (label, hint) in _WHOLE.items():
            self.fields[name].label, self.fields[name].help_text = label, hint
            least, most = BOUNDS[name]
            self.fields[name].widget.attrs.update({"min": least, "max": most})

    def words(self) -> dict[str, Any]:
        """What the rule asks for, as the action takes it."""
        skipped = ("name", "channel", "is_on", "version", "reason", "key")
        return {name: value for name, value in self.cleaned_data.items() if name not in skipped}


class ChainForm(SettingForm):
    """Who is asked when about the questions of one queue: up to six steps, each after so many minutes."""

    name = forms.CharField(max_length=64, label="Queue", help_text="* matches all queues without their own policy.")
    is_on = forms.BooleanField(
        required=False, initial=True, label="Enabled. While disabled, nobody is notified for this queue."
    )
    version = NumberField(required=False, widget=forms.HiddenInput)
    opened_at = forms.DateTimeField(
        required=False,
        label="Opening time",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        error_messages={"invalid": "The value is not a time; use 2026-01-31T22:00."},
    )

    def __init__(
        self,
        *args: Any,
        channels: Iterable[Channel],
        people: Iterable[str],
        chain: EscalationChain | None = None,
        **kwargs: Any,
    ) -> None:
        steps = chain.steps if chain is not None else [{"after_s": 0}]
        rows: dict[str, Any] = {}
        for place, step in enumerate(steps[:CHAIN_ROWS]):
            rows[f"after_{place}"] = f"{step['after_s'] / 60:g}"
            rows[f"channel_{place}"] = step.get("channel", "")
            rows[f"person_{place}"] = step.get("person", "")
        if chain is not None:
            rows |= {"name": chain.name, "is_on": chain.is_on, "version": chain.version}
        kwargs["initial"] = {**rows, **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
        where = [("", "nobody"), *((one.pk, f"{one.name} ({one.get_kind_display()})") for one in channels)]
        who = [("", "the channel"), (EVERYBODY, called(EVERYBODY)), *((name, name) for name in people)]
        for place in range(CHAIN_ROWS):
            self.fields[f"after_{place}"] = forms.FloatField(required=False, min_value=0, label="Delay, minutes")
            self.fields[f"channel_{place}"] = forms.TypedChoiceField(
                choices=where, coerce=int, required=False, empty_value=None, label="Channel"
            )
            self.fields[f"person_{place}"] = forms.ChoiceField(choices=who, required=False, label="User")
        self.order_fields(
            [name for name in self.fields if name not in ("reason", "key", "is_on")] + ["is_on", "reason", "key"]
        )

    def clean_opened_at(self) -> datetime | None:
        """A moment near the ends of the calendar cannot be told in every zone, nor what is asked days later."""
        opened_at: datetime | None = self.cleaned_data["opened_at"]
        if opened_at is not None and not _PREVIEWED_FROM <= opened_at.year < _PREVIEWED_TO:
            raise forms.ValidationError(
                f"The time is out of range; use a time between {_PREVIEWED_FROM} and {_PREVIEWED_TO}."
            )
        return opened_at

    def rows(self) -> list[tuple[int, Any, Any, Any]]:
        """The fields of each step: its number, after, channel and person."""
        return [
            (place + 1, self[f"after_{place}"], self[f"channel_{place}"], self[f"person_{place}"])
            for place in range(CHAIN_ROWS)
        ]

    def steps(self) -> list[Mapping[str, object]]:
        """The steps that were filled in, as the action takes them."""
        found: list[Mapping[str, object]] = []
        for place in range(CHAIN_ROWS):
            channel = self.cleaned_data.get(f"channel_{place}")
            if channel is not None:
                after_min = self.cleaned_data.get(f"after_{place}") or 0.0
                person = self.cleaned_data.get(f"person_{place}", "")
                found.append({"after_s": after_min * 60, "channel": channel, "person": person})
        return found


class DigestForm(SettingForm):
    """When a channel is told what is down."""

    every = forms.ChoiceField(choices=Digest.EVERY, initial="daily")
    weekday = forms.TypedChoiceField(
        choices=[(number, name.capitalize()) for number, name in enumerate(WEEKDAYS)],
        coerce=int,
        initial=0,
        label="Weekday",
        help_text="For weekly digests.",
    )
    at = forms.TimeField(initial="08:00", label="Time", widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"))
    zone = forms.CharField(max_length=64, initial="UTC", label="Time zone", help_text="Example: Europe/Rome.")
    tells_calm = forms.BooleanField(required=False, label="Send without open problems")
    is_on = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = NumberField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, digest: Digest | None = None, **kwargs: Any) -> None:
        shown: dict[str, Any] = {"version": 0}
        if digest is not None:
            shown = {name: getattr(digest, name) for name in self.base_fields if hasattr(digest, name)}
        kwargs["initial"] = {**shown, **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)


class ReasonOnlyForm(SettingForm):
    """An act that needs no more than a reason."""


class SnoozeForm(SettingForm):
    """Whose notices are held back, and for how long."""

    provider = forms.ChoiceField(
        error_messages={
            "required": "No provider is selected; select one.",
            "invalid_choice": "The provider has no calls in the last day; select one from the list.",
        }
    )
    expires_in_s = forms.TypedChoiceField(choices=EXPIRIES, coerce=int, initial=DEFAULT_EXPIRY_S, label="Duration")

    def __init__(self, *args: Any, providers: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["provider"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  # declared above
        field.choices = [(name, name) for name in providers]


class TestingForm(ReasonOnlyForm):
    """A test: its reason is written already."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["initial"] = {"reason": "Test of the channel.", **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
