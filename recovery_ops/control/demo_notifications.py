"""Whom the demonstration tells: channels to a receiver of its own, rules and a chain, made as people make them."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime, time, timedelta

from django.conf import settings
from django.utils import timezone

from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.commands import CommandContext
from recovery_ops.control.notifications.models.notifications import Channel
from recovery_ops.control.notifications.services.settings import RuleWords, save_chain, save_channel, save_rule
from recovery_ops.control.notifications.triggers import TRIGGERS

RECEIVER, CHAT, PAGER, MAILBOX = "demonstration", "demonstration chat", "demonstration pager", "demonstration mailbox"
CLOSED = "demonstration chat, closed"
QUIET = "demonstration quiet hours"
MAIL_DOMAIN = "demonstration.invalid"
_CHANNELS = {
    RECEIVER: (Channel.WEBHOOK, "/", True),
    CHAT: (Channel.SLACK, "/chat", False),
    PAGER: (Channel.PAGERDUTY, "/pager/v2/enqueue", True),
    CLOSED: (Channel.SLACK, "/closed", False),
    MAILBOX: (Channel.EMAIL, "", False),
}
"""Kind, path at the receiver, and whether it has a secret, by name."""
_CHAIN = ((0, RECEIVER), (120, PAGER), (240, MAILBOX))
"""Who is asked next while nobody takes a question, after so many seconds."""
_QUIET_BEFORE, _QUIET_FOR = timedelta(hours=1), timedelta(hours=3)


def demonstration_receiver(environment: str) -> dict[str, str]:
    """Set up channels that lead to the fleet's own receiver, and return what that one has to know.

    Only where people have set up no channel of their own, and have not removed these; nothing where the worker
    lives in another process, which would not know that it may send to this machine.
    """
    channels = Channel.objects.filter(environment=environment)
    held = {one.name: one for one in channels.filter(name__in=_CHANNELS, removed_at=None)}
    if not settings.EMBEDDED or (not held and channels.exists()):
        return {}
    port, mail_port = _free_ports()
    secret, by = secrets.token_urlsafe(24), system_actor("demonstration")
    settings.NOTIFY_HOSTS = [*settings.NOTIFY_HOSTS, f"127.0.0.1:{port}"]
    settings.MAIL_ROUTES = {**settings.MAIL_ROUTES, MAIL_DOMAIN: ("127.0.0.1", mail_port)}
    asked: CommandContext = {"by": by, "environment": environment, "reason": "Set-up of the demonstration."}
    is_first = not held
    for name, (kind, path, has_secret) in _CHANNELS.items():
        if is_first or name in held:
            held[name] = save_channel(
                **asked,
                name=name,
                number=held[name].pk if name in held else None,
                kind=kind,
                address=f"http://127.0.0.1:{port}{path}" if path else f"on-call@{MAIL_DOMAIN}",
                secret=secret if has_secret else "",
            ).object
    if is_first:
        _tell_by(held, asked, timezone.now())
    return {
        "RECOVERY_OPS_DEMO_PORT": str(port),
        "RECOVERY_OPS_DEMO_MAIL_PORT": str(mail_port),
        "RECOVERY_OPS_DEMO_SECRET": secret,
    }


def _free_ports() -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]


def _tell_by(channels: Mapping[str, Channel], asked: CommandContext, now: datetime) -> None:
    """Everything to the webhook, what goes on to the chat, what is grave to the pager; the chain from one to another.

    What was done and what is about to end comes by mail, and of what can wait until the morning nothing yet.
    """
    words: dict[str, tuple[str, RuleWords]] = {
        # The chain asks about escalations already.
        RECEIVER: (
            RECEIVER,
            {"triggers": [one for one in TRIGGERS if one != "escalation"], "failures": 40, "within_min": 2},
        ),
        CHAT: (CHAT, {"triggers": ["capacity", "breaker_moved", "degraded", "degradation_ended"], "group_s": 30}),
        PAGER: (PAGER, {"triggers": ["sla", "capacity", "burn"], "least_severity": "critical"}),
        MAILBOX: (MAILBOX, {"triggers": ["regressed", "override_expiring", "degradation_ended"], "expiry_lead_min": 2}),
        QUIET: (
            MAILBOX,
            {
                "triggers": ["first_seen", "failures_many"],
                "failures": 50,
                "quiet_from": _minute(now - _QUIET_BEFORE),
                "quiet_to": _minute(now - _QUIET_BEFORE + _QUIET_FOR),
            },
        ),
    }
    for name, (channel, rule) in words.items():
        save_rule(**asked, name=name, channel=channels[channel].pk, words=rule)
    steps = [{"after_s": after_s, "channel": channels[name].pk} for after_s, name in _CHAIN]
    save_chain(**asked, name="*", steps=steps)


def _minute(at: datetime) -> time:
    return at.time().replace(second=0, microsecond=0)
