"""Whom the console tells what: channels, rules and chains, which people make; notifications, deliveries and alerts.

A notification is one thing that one rule (or one chain) tells, once: its row is unique. A delivery is one message to
one channel, and the row that workers claim. What is in which state, and who moves it, is in `control.notify`.
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlsplit

from django.db import models
from django.db.models import Q, Value

from recovery_ops.control.core.models.bases import (
    ENVIRONMENT_CHARS,
    NAME_CHARS,
    environment_field,
    name_field,
)
from recovery_ops.control.notifications.models.mutes import NoticeSnooze

ADDRESS_CHARS = 2000
SECRET_CHARS = 500
EVENT_CHARS = 300
TITLE_CHARS = 300
TEXT_CHARS = 1000


class Wanted(models.Model):
    """What people make, change, switch off and remove; a removed one stays for the log. `version` counts changes."""

    environment = environment_field()
    name = models.CharField(max_length=NAME_CHARS)
    is_on = models.BooleanField(default=True)
    version = models.IntegerField(default=1)
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=NAME_CHARS)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Channel(Wanted):
    """One way to reach people. Address and secret are never shown again, logged, audited or exported.

    `address` is a URL, or for e-mail the receivers separated by commas; `secret` signs (webhook), or is the routing
    key (PagerDuty). People are written to at the address of their own account, and named by the step of a chain.
    """

    SLACK, WEBHOOK, EMAIL, PAGERDUTY, PEOPLE = "slack", "webhook", "email", "pagerduty", "people"
    KINDS = [
        (SLACK, "Slack"),
        (WEBHOOK, "Webhook"),
        (EMAIL, "E-mail"),
        (PAGERDUTY, "PagerDuty"),
        (PEOPLE, "E-mail to users"),
    ]
    MAILED = (EMAIL, PEOPLE)

    kind = models.CharField(max_length=16, choices=KINDS)
    address = models.CharField(max_length=ADDRESS_CHARS, default="", blank=True)
    secret = models.CharField(max_length=SECRET_CHARS, default="", blank=True)
    credentials = models.IntegerField(default=0, help_text="How often address or secret was set.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "name"], condition=Q(removed_at=None), name="channel_name_once"
            ),
        ]

    @property
    def target(self) -> str:
        """As much of where it leads as everybody may see."""
        if self.kind == self.EMAIL:
            return self.address
        if self.kind == self.PEOPLE:
            return "e-mail address of the user"
        host = urlsplit(self.address).hostname or ""
        return f"{host}/…" if host else "default address"

    @property
    def has_key(self) -> bool:
        """Whether its receiver drops what it was sent twice, so that a message in doubt may be sent again."""
        return self.kind == self.PAGERDUTY


class NotificationRule(Wanted):
    """What one channel is told: of which triggers, about what, when. `*`, empty patterns and lists mean everything.

    `since`: what happened before is not told; it moves on when the rule asks for something else.
    """

    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="rules")
    triggers = models.JSONField(default=list, help_text="Words of control.notify.triggers.")
    operation = name_field("*")
    queue = name_field("*")
    causes = models.JSONField(
        default=list, db_default=Value([], models.JSONField()), help_text="Fingerprints of failures it is about alone."
    )
    providers = models.JSONField(
        default=list, db_default=Value([], models.JSONField()), help_text="Names or patterns of providers."
    )
    person = models.CharField(
        max_length=NAME_CHARS, default="", db_default="", blank=True, help_text="Who is told alone: who watches this."
    )
    least_severity = models.CharField(max_length=16, default="info")
    failures = models.IntegerField(default=100, help_text="N in T: so many failures of one operation …")
    within_min = models.IntegerField(default=5, help_text="… in so many minutes.")
    expiry_lead_min = models.IntegerField(default=10)
    group_s = models.IntegerField(default=10)
    quiet_from = models.TimeField(null=True)
    quiet_to = models.TimeField(null=True)
    quiet_zone = models.CharField(max_length=64, default="UTC")
    quiet_passes = models.CharField(max_length=16, default="critical")
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "name"], condition=Q(removed_at=None), name="notification_rule_name_once"
            ),
        ]

    @property
    def origin(self) -> str:
        """What its notifications say they come from."""
        return f"rule:{self.pk}"


class EscalationChain(Wanted):
    """Who is asked when nobody takes a question of a queue (its `name`; `*` is every queue without its own).

    `since`: when it was set up or switched on. A question that is older is asked as if it had been opened then.
    """

    since = models.DateTimeField()
    steps = models.JSONField(default=list, help_text="As rules.chains.parse_steps reads them.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "name"], condition=Q(removed_at=None), name="escalation_chain_once"
            ),
        ]


class Delivery(models.Model):
    """One message to one channel: the outbox.

    waiting → claimed (a worker has it; nothing is out) → sending (it may be out) → sent, waiting again, or failed.
    Who dies while it is claimed loses nothing: the claim runs out. Who dies while sending leaves it `unknown`, and it
    is not sent again by itself, unless the channel's receiver drops what it got already.
    """

    WAITING, CLAIMED, SENDING = "waiting", "claimed", "sending"
    SENT, FAILED, UNKNOWN, DROPPED = "sent", "failed", "unknown", "dropped"
    STATES = (WAITING, CLAIMED, SENDING, SENT, FAILED, UNKNOWN, DROPPED)
    UNFINISHED = (WAITING, CLAIMED, SENDING)

    environment = environment_field()
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="deliveries")
    origin = models.CharField(max_length=EVENT_CHARS)
    person = models.CharField(max_length=NAME_CHARS, default="", blank=True, help_text="Whom it is written to.")
    lane = models.CharField(max_length=EVENT_CHARS, help_text="Messages of one lane of a channel go out in order.")
    phase = models.CharField(max_length=16)
    severity = models.CharField(max_length=16)
    title = models.CharField(max_length=TITLE_CHARS)
    lines = models.JSONField(default=list)
    things = models.JSONField(
        default=list, help_text="What a message of several tells of each, as control.notify.formats reads it."
    )
    path = models.CharField(max_length=EVENT_CHARS, default="", blank=True)
    made_at = models.DateTimeField()
    not_before = models.DateTimeField()
    state = models.CharField(max_length=16, default=WAITING, choices=[(state, state) for state in STATES])
    tries = models.IntegerField(default=0)
    claim = models.CharField(max_length=40, default="", blank=True)
    lease_until = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    status_code = models.IntegerField(null=True)
    problem = models.CharField(max_length=TEXT_CHARS, default="", blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=Q(state__in=("waiting", "claimed", "sending")),
                name="delivery_unfinished",
            ),
            models.Index(fields=["environment", "made_at"], name="delivery_by_time"),
            models.Index(fields=["origin", "made_at"], name="delivery_by_origin"),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.state})"

    @property
    def is_unfinished(self) -> bool:
        """Whether something is still to come of it."""
        return self.state in self.UNFINISHED


class Notification(models.Model):
    """One thing that one rule or chain tells, once. Without a delivery it is held; `is_open`: its end is to be told."""

    environment = environment_field()
    origin = models.CharField(max_length=EVENT_CHARS, help_text="`rule:7`, or `chain:12` for ESC-12.")
    rule = models.ForeignKey(NotificationRule, null=True, on_delete=models.PROTECT, related_name="+")
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="+")
    event = models.CharField(max_length=EVENT_CHARS)
    kind = models.CharField(max_length=32)
    phase = models.CharField(max_length=16)
    subject = models.CharField(max_length=EVENT_CHARS)
    severity = models.CharField(max_length=16)
    is_flappy = models.BooleanField(default=False)
    at = models.DateTimeField()
    found_at = models.DateTimeField()
    title = models.CharField(max_length=TITLE_CHARS)
    text = models.CharField(max_length=TEXT_CHARS, default="", blank=True)
    path = models.CharField(max_length=EVENT_CHARS, default="", blank=True)
    is_open = models.BooleanField(default=False)
    delivery = models.ForeignKey(Delivery, null=True, on_delete=models.PROTECT, related_name="notifications")
    snooze = models.ForeignKey(
        NoticeSnooze, null=True, on_delete=models.PROTECT, related_name="notices", help_text="What holds it back."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["origin", "event", "kind"], name="notification_once"),
        ]
        indexes = [
            models.Index(fields=["environment", "at"], name="notification_by_time"),
            models.Index(fields=["environment"], condition=Q(delivery=None), name="notification_held"),
            models.Index(fields=["environment"], condition=Q(is_open=True), name="notification_open"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class NotifyLook(models.Model):
    """When an environment was last looked at. Its row is the lock: of two workers that look, one does."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, primary_key=True)
    at = models.DateTimeField(null=True)
    failures_at = models.DateTimeField(null=True)
    burns_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.environment


class SeenFailure(models.Model):
    """A fingerprint of failures: when it was first seen, and when last (to a few minutes)."""

    environment = environment_field()
    fingerprint = models.CharField(max_length=2 * NAME_CHARS + 1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "fingerprint"], name="seen_failure_once")]

    def __str__(self) -> str:
        return self.fingerprint


class BurnAlert(models.Model):
    """A retry budget that is spent too fast: which operation's, by which of the alerts, from when until when."""

    environment = environment_field()
    operation = models.CharField(max_length=NAME_CHARS)
    burn = models.CharField(max_length=16, help_text="The name of a row of rules.burning.BURNS.")
    budget = models.FloatField(help_text="The share of calls that may be retries.")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    worst = models.FloatField(help_text="The highest rate of the long window.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "operation", "burn"], condition=Q(ended_at=None), name="burn_alert_open_once"
            ),
        ]
        indexes = [models.Index(fields=["environment", "began_at"], name="burn_alert_by_start")]

    def __str__(self) -> str:
        return f"{self.operation} {self.burn}"

    def lasted_s(self, now: datetime) -> float:
        """How long it lasted, or lasts so far."""
        return ((self.ended_at or now) - self.began_at).total_seconds()


class RetryBudget(models.Model):
    """How an operation spends its retry budget, as it was when somebody last looked: what the page and alerts go by."""

    environment = environment_field()
    operation = models.CharField(max_length=NAME_CHARS)
    budget = models.FloatField(help_text="The share of calls that may be retries.")
    windows = models.JSONField(default=dict, help_text="Calls and retries by the length of a window in seconds.")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "operation"], name="retry_budget_once")]

    def __str__(self) -> str:
        return self.operation
