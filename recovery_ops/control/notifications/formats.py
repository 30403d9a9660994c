"""One message in the form of each kind of channel.

Texts are of agents and people: each form escapes as its reader needs. The signature of a webhook is documented, with
an example that checks it, in docs/operate/notifications.md.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from recovery_ops.control.notifications.models.notifications import Channel, Delivery
from recovery_ops.control.notifications.wording import LINES_MOST
from recovery_ops.rules.notifications.grouping import Phase, Severity

PAGERDUTY_ADDRESS = "https://events.pagerduty.com/v2/enqueue"
_MARKS = {Severity.INFO: "·", Severity.WARNING: "▲", Severity.CRITICAL: "■"}
_OVER = "✓"
_ACTIONS = {
    Phase.BEGAN: "trigger",
    Phase.TOLD: "trigger",
    Phase.ACKNOWLEDGED: "acknowledge",
    Phase.ENDED: "resolve",
}
_DEDUP_CHARS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is posted where."""

    url: str
    body: bytes
    headers: dict[str, str]


def request_of(delivery: Delivery, channel: Channel, *, now: datetime) -> Request:
    """The message as a channel's receiver reads it; not for e-mail."""
    if channel.kind == Channel.SLACK:
        return _request(channel.address, slack(delivery))
    if channel.kind == Channel.PAGERDUTY:
        return _request(channel.address or PAGERDUTY_ADDRESS, pagerduty(delivery, channel.secret))
    made = _request(channel.address, webhook(delivery))
    seconds = str(int(now.timestamp()))
    made.headers["Recovery-Ops-Delivery"] = str(delivery.pk)
    made.headers["Recovery-Ops-Timestamp"] = seconds
    made.headers["Recovery-Ops-Signature"] = f"v1={signature(channel.secret, seconds, made.body)}"
    return made


def signature(secret: str, seconds: str, body: bytes) -> str:
    """HMAC-SHA256 of `<seconds>.<body>` in hexadecimal."""
    return hmac.new(secret.encode(), seconds.encode() + b"." + body, hashlib.sha256).hexdigest()


def webhook(delivery: Delivery) -> dict[str, Any]:
    """The message as plain JSON. `things` has an entry for each of what it tells, also where that is one."""
    return {
        "version": 1,
        "id": delivery.pk,
        "environment": delivery.environment,
        "phase": delivery.phase,
        "severity": delivery.severity,
        "subject": key_of(delivery),
        "title": delivery.title,
        "lines": delivery.lines,
        "url": link_of(delivery),
        "made_at": delivery.made_at.isoformat(),
        "things": [
            {
                "subject": thing.subject,
                "phase": thing.phase.value,
                "severity": thing.severity.value,
                "title": thing.title,
                "text": thing.text,
                "url": thing.url,
            }
            for thing in things_of(delivery)
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One of what a message tells: `subject` is the same from its beginning to its end, alone or with others."""

    subject: str
    phase: Phase
    severity: Severity
    title: str
    text: str
    url: str


def things_of(delivery: Delivery) -> list[Thing]:
    """What a message tells of, one or several."""
    alone = {
        "lane": delivery.lane,
        "phase": delivery.phase,
        "severity": delivery.severity,
        "title": delivery.title,
        "text": " ".join(delivery.lines),
        "path": delivery.path,
    }
    return [
        Thing(
            subject=f"{delivery.environment}:{one['lane']}",
            phase=Phase(one["phase"]),
            severity=Severity(one["severity"]),
            title=one["title"],
            text=one["text"],
            url=f"{settings.PUBLIC_URL}{one['path']}" if one["path"] else "",
        )
        for one in delivery.things or [alone]
    ]


def slack(delivery: Delivery) -> dict[str, Any]:
    """The message for an incoming webhook of Slack, Mattermost or Rocket.Chat."""
    link = link_of(delivery)
    heading = f"{mark_of(delivery)} *{_escaped(delivery.title)}*"
    lines = [_escaped(line) for line in delivery.lines]
    for place, one in enumerate(_things_of_lines(delivery)):
        lines[place] = f"{_mark(one.phase, one.severity)} {lines[place]}{f' <{one.url}|Open>' if one.url else ''}"
    below = [f"<{link}|Open in Recovery Ops> · {_escaped(delivery.environment)}"] if link else []
    return {"text": "\n".join([heading, *lines, *below]), "unfurl_links": False}


def pagerduty(delivery: Delivery, routing_key: str) -> dict[str, Any]:
    """The message as an event of PagerDuty's Events API v2."""
    action = _ACTIONS[Phase(delivery.phase)]
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": key_of(delivery)[:_DEDUP_CHARS],
    }
    if action == "trigger":
        link = link_of(delivery)
        event["payload"] = {
            "summary": delivery.title[:1024],
            "source": f"recovery-ops {delivery.environment}",
            "severity": delivery.severity,
            "timestamp": delivery.made_at.isoformat(),
            "custom_details": {"lines": delivery.lines},
        }
        event["links"] = [{"href": link, "text": "Open in Recovery Ops"}] if link else []
        event["client"] = "Recovery Ops"
    return event


def mail(delivery: Delivery) -> tuple[str, str]:
    """Subject and text."""
    link = link_of(delivery)
    subject = f"[{delivery.environment}] {delivery.title}"
    lines = list(delivery.lines)
    for place, one in enumerate(_things_of_lines(delivery)):
        lines[place] = f"{_mark(one.phase, one.severity)} {lines[place]}{f' {one.url}' if one.url else ''}"
    return subject, "\n".join([delivery.title, "", *lines, *(["", link] if link else [])])


def key_of(delivery: Delivery) -> str:
    """What the receiver puts messages together by: the same from the beginning of a trouble to its end."""
    return f"{delivery.environment}:{delivery.lane}"


def link_of(delivery: Delivery) -> str:
    """The page about it."""
    return f"{settings.PUBLIC_URL}{delivery.path}" if delivery.path else ""


def mark_of(delivery: Delivery) -> str:
    """One character that says how much it matters, or that all of it is over."""
    is_over = all(one.phase is Phase.ENDED for one in things_of(delivery))
    return _mark(Phase.ENDED if is_over else Phase.TOLD, Severity(delivery.severity))


def _mark(phase: Phase, severity: Severity) -> str:
    return _OVER if phase is Phase.ENDED else _MARKS[severity]


def _things_of_lines(delivery: Delivery) -> list[Thing]:
    """What the lines of a message of several are about, one by one; what is more is counted in the last line."""
    return things_of(delivery)[:LINES_MOST] if delivery.things else []


def _request(url: str, content: dict[str, Any]) -> Request:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "recovery-ops"}
    return Request(url=url, body=body, headers=headers)


def _escaped(text: str) -> str:
    """Slack's own escapes, so that a text neither names nor links anybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
