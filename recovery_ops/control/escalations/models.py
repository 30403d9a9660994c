"""Questions to people: one row for each, which facts asked it, and what was done about it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from events.models import FINGERPRINT_CHARS
from recovery_ops.control.core.labels import LABELS_CHARS, parse_labels
from recovery_ops.control.core.models.bases import (
    NAME_CHARS,
    REASON_CHARS,
    WrittenOnce,
    environment_field,
    name_field,
    person_field,
)
from recovery_ops.rules.desired_state import Answer
from recovery_ops.rules.policy.escalation_terms import ABORT, ALLOW, NORMAL, REJECT

MESSAGE_CHARS = 1000
ANSWER_CHARS = 4000
HELD_MOST = timedelta(minutes=30)
"""Whoever took a question and went away no longer holds it after this."""


class Escalation(models.Model):
    """One question. Many facts may ask it (`occurrences`); a run that waits for its own answer has its own (`ticket`).

    `version` counts what people did: who acts on an older one is told what happened meanwhile. Severity, times and
    default are those of the policy when it was opened (`rules.escalation_terms`), and stay.
    """

    APPROVED, REJECTED, EDITED, DONE, MERGED = "approved", "rejected", "edited", "resolved", "merged"
    ABORTED = "aborted"
    """What silence decides about a run that was stopped: it stays so; what it has saved stays, too (`saved_runs`)."""

    WITHDRAWN = "withdrawn"
    """Of a run that waited and was called off: nobody is to answer it. A newer fact brings it back."""

    environment = environment_field()
    key = models.CharField(max_length=32, help_text="A digest of what makes two facts ask the same question.")
    ticket = name_field()
    queue = name_field()
    reason = name_field()
    category = models.CharField(max_length=32, default="", blank=True)
    fingerprint = models.CharField(
        max_length=FINGERPRINT_CHARS,
        default="",
        db_default="",
        blank=True,
        help_text="The cause of failures that a person asked about.",
    )
    capacity_event = models.BigIntegerField(
        null=True, help_text="The number of the capacity event that a person asked about."
    )
    operation = name_field()
    message = models.CharField(max_length=MESSAGE_CHARS, default="", blank=True)
    proposal = models.CharField(
        max_length=ANSWER_CHARS, default="", db_default="", blank=True, help_text="What is done if it is approved."
    )
    service = name_field()
    instances = models.JSONField(default=list, help_text="The first twenty that asked.")
    runs = models.JSONField(default=list, help_text="The first twenty that asked.")
    saved_runs = models.IntegerField(
        null=True, help_text="Of how many of them a checkpoint is known, where silence leaves them stopped."
    )
    occurrences = models.IntegerField(default=0)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="When the newest fact that asks it happened.")

    acknowledge_by = models.DateTimeField()
    resolve_by = models.DateTimeField()
    severity = models.CharField(max_length=16, default=NORMAL, help_text="As the policy said when it was opened.")
    acknowledge_in_s = models.FloatField(default=900.0, help_text="Seconds; as the policy said when it was opened.")
    resolve_in_s = models.FloatField(default=1800.0, help_text="Seconds; of a run that waits, how long it does.")
    default_action = models.CharField(max_length=32, default="", blank=True)
    default_done_at = models.DateTimeField(null=True)

    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = name_field()
    first_acknowledged_at = models.DateTimeField(null=True, help_text="Stays when an acknowledgement expires.")
    assignee = person_field()
    assigned_to = name_field()
    snoozed_until = models.DateTimeField(null=True)
    labels = models.CharField(
        max_length=LABELS_CHARS, default="", db_default="", blank=True, help_text="`|billing|vip|`; empty for none."
    )

    resolved_at = models.DateTimeField(null=True)
    resolved_by = name_field()
    resolution = models.CharField(max_length=16, default="", blank=True)
    answer = models.CharField(max_length=ANSWER_CHARS, default="", blank=True, help_text="What goes back to the run.")
    revision = models.BigIntegerField(null=True, help_text="Under which the answer went to the agents.")
    merged_into = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="+")
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "key"], condition=Q(resolved_at=None), name="escalation_open_once"
            ),
        ]
        indexes = [
            models.Index(fields=["environment", "resolved_at"], name="escalation_by_end"),
            models.Index(fields=["resolve_by"], condition=Q(resolved_at=None), name="escalation_due"),
            models.Index(
                fields=["environment", "fingerprint"], condition=Q(fingerprint__gt=""), name="escalation_by_cause"
            ),
            models.Index(
                fields=["environment", "capacity_event"],
                condition=Q(capacity_event__isnull=False),
                name="escalation_by_outage",
            ),
        ]

    def __str__(self) -> str:
        return f"ESC-{self.pk}"

    @property
    def is_open(self) -> bool:
        return self.resolved_at is None

    @property
    def label_names(self) -> list[str]:
        """Its labels, in alphabetical order."""
        return parse_labels(self.labels)

    @property
    def ends_by_default(self) -> str:
        """The resolution with which its deadline ends it; empty where it stays open, because silence decides nothing.

        A run that waits is always answered. Who is to name a failure, or to undo by hand what could not be undone, is
        still to do it when the deadline has passed.
        """
        if self.ticket:
            return self.APPROVED if self.default_action == ALLOW else self.REJECTED
        return {ALLOW: self.APPROVED, REJECT: self.REJECTED, ABORT: self.ABORTED}.get(self.default_action, "")

    @property
    def is_defaulted(self) -> bool:
        """Whether it is open although its default was carried out: then no deadline runs any more."""
        return self.resolved_at is None and self.default_done_at is not None

    @property
    def acknowledge_in(self) -> timedelta:
        return timedelta(seconds=self.acknowledge_in_s)

    @property
    def resolve_in(self) -> timedelta:
        return timedelta(seconds=self.resolve_in_s)

    @property
    def held_for(self) -> timedelta:
        """How long whoever took it holds it; who went away by then leaves as much to the next."""
        return min(HELD_MOST, self.resolve_in / 2)

    def as_answer(self) -> Answer:
        """What the run that waits is told."""
        return Answer(
            ticket=self.ticket,
            decision=self.ends_by_default if self.resolution == self.WITHDRAWN else self.resolution,
            text=self.answer,
            by=self.resolved_by,
            service=self.service,
            revision=self.revision or 0,
        )

    def is_snoozed_at(self, now: datetime) -> bool:
        """Whether somebody put it off until later."""
        return self.snoozed_until is not None and now < self.snoozed_until


_DID = {
    "acknowledge": "acknowledged",
    "approve": "approved",
    "assign": "assigned",
    "default": "applied the default action",
    "entry": "added an entry",
    "escalate": "changed the queue",
    "expired": "expired the acknowledgement",
    "label": "labelled",
    "merge": "merged",
    "note": "commented",
    "reject": "rejected",
    "reopen": "reopened",
    "resolve": "resolved",
    "returned": "ended the snooze",
    "snooze": "snoozed",
    "step": "escalated to a later level",
    "withdraw": "withdrew",
}


class EscalationNote(WrittenOnce):
    """One line of an escalation's story: what people said and did, and what happened by itself."""

    escalation = models.ForeignKey(Escalation, on_delete=models.PROTECT, related_name="notes")
    at = models.DateTimeField()
    by = models.CharField(max_length=NAME_CHARS)
    verb = models.CharField(max_length=20)
    text = models.CharField(max_length=REASON_CHARS, default="", blank=True)
    happened_at = models.DateTimeField(null=True, help_text="Of an entry by hand: when it was, where that is not `at`.")
    chain_s = models.FloatField(null=True, help_text="Of a step asked at once: how far the chain's clock then is.")

    class Meta:
        indexes = [models.Index(fields=["escalation", "at"], name="escalation_note_by_time")]

    def __str__(self) -> str:
        return f"{self.by} {self.verb}"

    @property
    def did(self) -> str:
        """What was done, as it is read after a name."""
        return _DID.get(self.verb, self.verb.replace("_", " "))

    @property
    def moment(self) -> datetime:
        """When it was; `at` is when it was written."""
        return self.happened_at or self.at


class EscalationSource(WrittenOnce):
    """A fact that asked a question: seen once, however often it is looked at."""

    environment = environment_field()
    uid = models.BinaryField(max_length=16)
    escalation = models.ForeignKey(Escalation, on_delete=models.PROTECT, related_name="sources")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "uid"], name="escalation_source_once")]

    def __str__(self) -> str:
        return f"{self.escalation_id}"
