"""The outbox: workers claim messages by conditional updates, so each try is made by one, and none is made twice.

A message is claimed with a lease, then marked `sending` right before the first byte goes out. A worker that dies in
between two marks leaves a lease that runs out: claimed messages are free again, those that were being sent are
`unknown` and stay so, unless the channel's receiver drops what it got already.
"""

from __future__ import annotations

import logging
import random
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from recovery_ops.control.notifications.formats import mail, request_of
from recovery_ops.control.notifications.models.notifications import TEXT_CHARS, Channel, Delivery
from recovery_ops.control.notifications.recipients import addresses_of, without_address
from recovery_ops.control.notifications.transport import Unreached, Unsendable, post
from recovery_ops.control.notifications.wording import shown
from recovery_ops.rules.classification.redaction import masked
from recovery_ops.rules.classification.retry_after import server_wait_s
from recovery_ops.rules.notifications.delivery import Outcome, next_try, outcome_of

LEASE = timedelta(seconds=settings.NOTIFY_LEASE_S)
"""Longer than one exchange may take."""
AT_ONCE = 50
SPENT_S = 5.0
"""After so long a sender stops claiming: the next look takes over. A worker whose processes all send looks at nothing
else meanwhile, and an outage has to be seen within ten seconds (`manage.py bench work`)."""
_one_sender = threading.Lock()

logger = logging.getLogger(__name__)
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What one try came to: for the log, and for what follows."""

    outcome: Outcome
    problem: str = ""
    status_code: int | None = None
    retry_after_s: float | None = None


def send_due(*, now: Clock = timezone.now, chance: Callable[[], float] = random.random) -> int:
    """Send what is due in every environment; return how many tries were made.

    One at a time in a process, so that a slow receiver never holds all of its threads.
    """
    if not _one_sender.acquire(blocking=False):
        return 0
    try:
        began = now()
        mend(began)
        tries = 0
        while tries < AT_ONCE and (now() - began).total_seconds() < SPENT_S:
            delivery = claim_next(now())
            if delivery is None:
                break
            tries += try_it(delivery, now=now, chance=chance())
        return tries
    finally:
        _one_sender.release()


def mend(now: datetime) -> int:
    """Free what dead workers held, and give up what they may have sent; return how many rows that was."""
    gone = Delivery.objects.filter(lease_until__lt=now)
    free = {"state": Delivery.WAITING, "claim": "", "lease_until": None}
    freed = gone.filter(state=Delivery.CLAIMED).update(**free)
    sending = gone.filter(state=Delivery.SENDING)
    freed += sending.filter(channel__kind=Channel.PAGERDUTY).update(**free)
    unsure = "The worker stopped during the delivery. The delivery state is unknown; no retry."
    return freed + sending.exclude(channel__kind=Channel.PAGERDUTY).update(
        state=Delivery.UNKNOWN, problem=unsure, ended_at=now, lease_until=None
    )


def claim_next(now: datetime) -> Delivery | None:
    """Take the next message that is due, or None. Whoever comes second of two finds it taken."""
    # A message about several things stands in the lane of its rule: nothing of that rule overtakes it, or is overtaken.
    in_lane = Q(lane=OuterRef("lane")) | Q(lane=OuterRef("origin")) | Q(origin=OuterRef("lane"))
    before = Delivery.objects.filter(
        in_lane, channel=OuterRef("channel"), pk__lt=OuterRef("pk"), state__in=Delivery.UNFINISHED
    )
    due = Delivery.objects.filter(state=Delivery.WAITING, not_before__lte=now).exclude(Exists(before))
    for pk in list(due.order_by("not_before", "pk").values_list("pk", flat=True)[:10]):
        claim = secrets.token_hex(16)
        mine = Delivery.objects.filter(pk=pk, state=Delivery.WAITING, not_before__lte=now)
        if mine.update(state=Delivery.CLAIMED, claim=claim, lease_until=now + LEASE):
            return Delivery.objects.select_related("channel").get(pk=pk)
    return None


def try_it(delivery: Delivery, *, now: Clock, chance: float = 0.0) -> int:
    """Make one try at a claimed message; 0 where the claim was lost meanwhile, and nothing was sent."""
    mine = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim)
    channel, moment = delivery.channel, now()
    if not channel.is_on or channel.removed_at is not None:
        off = "The channel was deleted." if channel.removed_at else "The channel is disabled."
        mine.update(state=Delivery.DROPPED, problem=off, ended_at=moment, lease_until=None)
        return 0
    # The lease is asked for again: whoever slept through it must not send what somebody else may have taken.
    held = mine.filter(state=Delivery.CLAIMED, lease_until__gt=moment)
    if not held.update(state=Delivery.SENDING, tries=F("tries") + 1, tried_at=moment, lease_until=moment + LEASE):
        return 0
    delivery.tries += 1
    tried = _exchange(delivery, channel, moment)
    _note(delivery, tried, now(), chance)
    return 1


def _note(delivery: Delivery, tried: Tried, at: datetime, chance: float) -> None:
    then = next_try(tried.outcome, tries=delivery.tries, retry_after_s=tried.retry_after_s, chance=chance)
    said = {
        "problem": shown(masked(tried.problem), TEXT_CHARS),
        "status_code": tried.status_code,
        "lease_until": None,
        "claim": "",
    }
    # Given up as unknown meanwhile, because this took too long: now it is known.
    mine = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state__in=(Delivery.SENDING, Delivery.UNKNOWN))
    if then.outcome is Outcome.ARRIVED:
        mine.update(state=Delivery.SENT, ended_at=at, **said)
    elif then.outcome is Outcome.LATER:
        mine.update(state=Delivery.WAITING, not_before=at + timedelta(seconds=then.wait_s), ended_at=None, **said)
    else:
        mine.update(state=Delivery.FAILED, ended_at=at, **said)
        logger.warning("a message to channel %s was not delivered: %s", delivery.channel.name, said["problem"])


def _exchange(delivery: Delivery, channel: Channel, at: datetime) -> Tried:
    try:
        if channel.kind in Channel.MAILED:
            return _mailed(delivery, channel, at)
        request = request_of(delivery, channel, now=at)
        answer = post(request.url, request.body, request.headers)
    except Unsendable as error:
        return Tried(outcome=Outcome.NEVER, problem=str(error))
    except Unreached as error:
        return Tried(outcome=Outcome.LATER, problem=str(error))
    outcome = outcome_of(answer.status)
    wait_s = server_wait_s(answer.headers, None, "", is_rate_limit=False, now=at.timestamp())
    if outcome is Outcome.ARRIVED:
        return Tried(outcome=outcome, status_code=answer.status)
    said = (
        f"Response status {answer.status}: {answer.text}"
        if answer.text.strip()
        else f"Response status {answer.status}."
    )
    if 300 <= answer.status < 400:
        said = f"Response status {answer.status}: redirects are not followed; use the final address."
    return Tried(outcome=outcome, status_code=answer.status, problem=said, retry_after_s=wait_s)


def _mailed(delivery: Delivery, channel: Channel, at: datetime) -> Tried:
    subject, text = mail(delivery)
    if channel.kind == Channel.PEOPLE:
        to = addresses_of(delivery.person, delivery.environment, now=at)
        if not to:
            return Tried(outcome=Outcome.NEVER, problem=without_address(delivery.person))
    else:
        to = [one.strip() for one in channel.address.split(",") if one.strip()]
    route = _route_of(to)
    if route is None and not settings.EMAIL_IS_SET_UP:
        return Tried(outcome=Outcome.NEVER, problem="No mail server is configured; set RECOVERY_OPS_MAIL_URL.")
    # Who gave their address to the console did not give it to each other.
    hides_others = channel.kind == Channel.PEOPLE and len(to) > 1
    message = EmailMessage(
        subject=shown(subject, 200),
        body=text,
        to=[] if hides_others else to,
        bcc=to if hides_others else [],
        headers={"Message-ID": f"<delivery-{delivery.pk}@recovery-ops>", "Auto-Submitted": "auto-generated"},
        connection=None if route is None else _connection_to(*route),
    )
    try:
        message.send()
    except (OSError, ValueError) as error:  # smtplib's errors are OSErrors, too
        code = getattr(error, "smtp_code", None)
        is_final = isinstance(code, int) and 500 <= code < 600
        return Tried(
            outcome=Outcome.NEVER if is_final else Outcome.LATER,
            status_code=code if isinstance(code, int) else None,
            problem=f"The mail server rejected the message: {type(error).__name__}.",
        )
    return Tried(outcome=Outcome.ARRIVED)


def _route_of(to: Sequence[str]) -> tuple[str, int] | None:
    """The mail server of a domain that has one of its own, where all receivers are there."""
    [domain, *others] = {one.rpartition("@")[2].lower() for one in to} or {""}
    return None if others else settings.MAIL_ROUTES.get(domain)


def _connection_to(host: str, port: int) -> BaseEmailBackend:
    # It asks for no password, whatever the settings have for others.
    return get_connection(host=host, port=port, username="", password="", use_tls=False, use_ssl=False)  # nosec B106
