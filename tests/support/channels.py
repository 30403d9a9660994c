"""Channels and rules of notifications."""

from __future__ import annotations

from typing import Any

from recovery_ops.control.notifications.models.notifications import Channel, NotificationRule
from recovery_ops.control.notifications.services.settings import save_channel, save_rule
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.stories import ago
from tests.support.webhook_receiver import Receiver

SECRET = "s3cr3t-signing-key-of-ours"


EVA = person(Role.EDITOR, "eva")


def channel(inbox: Receiver | None = None, kind: str = "webhook", name: str = "ops", **more: Any) -> Channel:
    """A channel that leads to the receiver."""
    given: dict[str, Any] = {"kind": kind, "address": inbox.url if inbox else "https://hooks.example.org/x"}
    if kind in ("webhook", "pagerduty"):
        given["secret"] = SECRET
    return save_channel(**asked(by=EVA, name=name, **given | more)).object


def rule(to: Channel, *triggers: str, name: str = "", is_on: bool = True, **words: Any) -> NotificationRule:
    """A rule that tells at once, and has been there for a while."""
    given = {"triggers": list(triggers), "group_s": 0} | words
    return save_rule(
        **asked(by=EVA, now=ago(7200), name=name or " ".join(triggers), channel=to.pk, words=given, is_on=is_on)
    ).object
