"""Why the audit log is empty, and the next step."""

from __future__ import annotations

from django.urls import reverse

from events.pages.empties import Empty, Why
from events.pages.window import Window
from events.wording import count_text
from recovery_ops.control.core.models.audit import AuditHead


def no_entry(environment: str, head: AuditHead | None, *, is_newest: bool, window: Window | None = None) -> Empty:
    """Why the audit log shows nothing: nobody did anything (in a range), it was asked for what is older, or entries
    are gone."""
    if head is None or not head.number:
        text = "Changes of users, keys and the system appear here."
        return Empty(why=Why.NEVER, title="No entries", text=text)
    if not is_newest:
        title = f"0 of {count_text(head.number, 'entry', 'entries')}"
        text = "No older entries."
        return Empty(why=Why.NO_MATCH, title=title, text=text, href=reverse("audit"), button="Newest entries")
    if window is not None:
        text = f"{count_text(head.number, 'entry', 'entries')} in total."
        title = "No entries in this range"
        return Empty(why=Why.GOOD, title=title, text=text, href=reverse("audit"), button="Newest entries")
    return Empty(
        why=Why.UNKNOWN,
        title=f"{count_text(head.number, 'entry is', 'entries are')} missing",
        text=f"The entries of {environment} were deleted from the database.",
    )
