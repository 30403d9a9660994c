"""What people type on the pages of the settings, checked before an action is asked."""

from __future__ import annotations

from typing import Any

from django import forms


class SettingForm(forms.Form):
    """A reason, a key against sending twice, and what the act itself asks for: that comes first."""

    reason = forms.CharField(
        min_length=10,
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="At least 10 characters. Recorded in the audit log.",
        error_messages={
            "required": "Enter a reason of at least 10 characters.",
            "min_length": "The reason is too short; use at least 10 characters.",
            "max_length": "The reason is too long; use at most 500 characters.",
        },
    )
    key = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        self.order_fields([name for name in self.fields if name not in ("reason", "key")] + ["reason", "key"])
