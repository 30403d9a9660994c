"""The inbox of unknown failures: listed by cause, named by a proposed rule, or left unknown knowingly."""

from __future__ import annotations

from typing import Any

from recovery_ops.rules.enums import Category, Evidence
from tests.support.stories import Story, failed, heartbeat

MARK = "badcafe"


BUSY = "ledger {} is busy"


def met(mark: str = MARK, *, times: int = 3, message: str = BUSY, late: float = 0.0, **said: Any) -> None:
    """Unknown failures of one cause; `late`: seconds to add, so that they are now."""
    story = Story()
    story.tell(heartbeat(), at=late + 900, instance="r-0")
    given: dict[str, Any] = {"evidence": Evidence.NONE, "retryable": False, "exception_type": "acme.LedgerError"} | said
    category, operation = given.pop("category", Category.UNKNOWN), given.pop("operation", "post_entry")
    for number in range(times):
        told = failed(category, operation, fingerprint=mark, message=message.format(number), **given)
        story.tell(told, at=late + 90 + number, instance="r-0", run=f"{mark}-{number}")
    story.store()
