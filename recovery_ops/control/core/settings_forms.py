"""What people type on the pages of the settings, checked before an action is asked."""

from __future__ import annotations

from typing import Any, cast

from django import forms

from recovery_ops.control.core.forms import ReasonField


class SettingForm(forms.Form):
    """A reason, a key against sending twice, and what the act itself asks for: that comes first."""

    reason = ReasonField(
        widget=forms.Textarea(attrs={"rows": 2}), label="Reason (optional)", help_text="Recorded in the audit log."
    )
    key = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, is_reason_needed: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        if is_reason_needed:
            cast("ReasonField", self.fields["reason"]).require()
            self.fields["reason"].label = "Reason"
        self.order_fields([name for name in self.fields if name not in ("reason", "key")] + ["reason", "key"])
