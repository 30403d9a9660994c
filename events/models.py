"""The tables of what happened: raw facts, and what is folded from them in the transaction that stores them.

Everything but `AgentKey`, `Quarantine` and `Agent.retired_us` can be rebuilt from raw facts: `manage.py verify_facts`
proves it. `events/store/writes.py` writes with SQL of its own. Moments are whole microseconds since the epoch (`…_us`).
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from events.store.stored_json import StoredJSON

NAME_CHARS = 200
"""The longest name of an operation, breaker, source, model … that is kept; longer ones are cut."""
FINGERPRINT_CHARS = 2 * NAME_CHARS + 1
"""Room for one that is made of two names."""
ENVIRONMENT_CHARS = 64
UID_BYTES = 16
"""A UUID, or as much of a digest."""
POSITION_BYTES = 32
DEGRADATION_EVENTS = ("degradation_started", "degradation_ended")
INSTANCE_EVENTS = ("instance_heartbeat", "gate_closed", "wait_heartbeat")
"""What tells how an instance stands, however little else it tells."""


def _name() -> models.CharField[str, str]:
    """A short text that is empty where it does not apply."""
    return models.CharField(max_length=NAME_CHARS, default="", blank=True)


def _environment() -> models.CharField[str, str]:
    """The environment comes from the key of whoever sent the fact, never from an attribute."""
    return models.CharField(max_length=ENVIRONMENT_CHARS)


def _position() -> models.BinaryField[bytes, bytes]:
    """Which fact a folded value came from, as bytes that sort like (at_us, sequence_number, uid); empty for none.

    A fact whose position is lower never overwrites a value, so any order of arrival ends in the same table.
    """
    return models.BinaryField(max_length=POSITION_BYTES, default=b"")


class AgentKey(models.Model):
    """A secret that lets a program in. Only its SHA-256 is kept; the prefix is what people recognise it by."""

    name = models.CharField(max_length=NAME_CHARS)
    environment = _environment()
    scopes = models.CharField(max_length=100, help_text="Space-separated words of events.keys.SCOPES.")
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the whole token, in hexadecimal.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="Exact to about a minute.")
    last_used_from = models.CharField(max_length=64, default="", db_default="", blank=True)
    made_by = models.CharField(max_length=NAME_CHARS, default="", db_default="", blank=True)
    requests_per_s = models.IntegerField(
        null=True, blank=True, help_text="Of each scope, by each process; null: what the settings say, 0: no limit."
    )

    class Meta:
        ordering = ["environment", "name", "id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…, {self.environment})"


class Agent(models.Model):
    """One instance of one service in one environment, as its facts describe it. Folded.

    Four groups of columns follow four kinds of facts, each by its own position: `version, group` any fact; `status …
    takes_retries` the newest heartbeat; `revision, config_hash` that or desired_state_applied; `rejected_…` the newest
    desired_state_rejected, which counts while `rejected_us > applied_us`. Seen times are the server's.
    """

    environment = _environment()
    service = _name()
    instance = _name()
    first_seen_us = models.BigIntegerField()
    last_seen_us = models.BigIntegerField()
    changes = models.BigIntegerField(default=0, db_default=0, help_text="Transactions that stored events of it.")
    retired_us = models.BigIntegerField(default=0, db_default=0, help_text="When people said that it is gone, or 0.")

    described_position = _position()
    version = _name()
    group = _name()

    heartbeat_position = _position()
    heartbeat_us = models.BigIntegerField(null=True)
    heartbeat_interval_s = models.FloatField(default=0.0)
    status = models.CharField(max_length=32, default="", help_text="Empty: no heartbeat yet.")
    uptime_s = models.FloatField(default=0.0)
    schema_version = models.IntegerField(default=0)
    breakers_open = models.IntegerField(default=0)
    runs_in_flight = models.IntegerField(default=0)
    outbox_pending = models.BigIntegerField(default=0)
    outbox_dropped = models.BigIntegerField(default=0)
    region = models.CharField(max_length=NAME_CHARS, default="", db_default="", help_text="Where it runs, if it said.")
    spending = models.TextField(default="{}", help_text="JSON: totals of its spend accounts, by measure and account.")
    takes_new_work = models.BooleanField(null=True, help_text="Whether it begins runs, if it said.")
    takes_retries = models.BooleanField(null=True, help_text="Whether it begins runs again, if it said.")

    revision_position = _position()
    revision = models.BigIntegerField(default=0)
    config_hash = models.CharField(max_length=64, default="")

    applied_position = _position()
    applied_us = models.BigIntegerField(null=True, help_text="When desired_state_applied was last stated.")
    applied_revision = models.BigIntegerField(default=0)
    clamped = models.TextField(default="[]", help_text="JSON list: what local ceilings held back at that revision.")

    rejected_position = _position()
    rejected_us = models.BigIntegerField(null=True)
    rejected_revision = models.BigIntegerField(null=True)
    rejected_reason = models.CharField(max_length=1000, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "service", "instance"], name="agent_once")]

    def __str__(self) -> str:
        return f"{self.service}/{self.instance}"


class Fact(models.Model):
    """One thing that happened, as it was sent: append-only.

    `event` is the short name of wire.names, or `log` for a record that is not one of our events. `attributes`
    holds, under the names of wire.names, what is not a column. `at_us` is never later than `received_us`; what the
    sender's clock said instead is in `stated_us` if it differs. States and categories are stored in our own spelling.
    """

    environment = _environment()
    uid = models.BinaryField(
        max_length=UID_BYTES, help_text="The UUID of log.record.uid, or a digest where there is none."
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+")
    event = models.CharField(max_length=32)
    at_us = models.BigIntegerField()
    received_us = models.BigIntegerField()
    stated_us = models.BigIntegerField(null=True)
    sequence_number = models.BigIntegerField(default=0)
    severity = models.SmallIntegerField(default=0)
    operation = _name()
    breaker = _name()
    source = _name()
    is_foreground = models.BooleanField(default=False)
    run = _name()
    category = models.CharField(max_length=32, default="")
    state = models.CharField(max_length=16, default="")
    provider = _name()
    model = _name()
    region = models.CharField(  # noqa: DJ001  # with NULL for none the table takes the column as it stands
        max_length=NAME_CHARS, null=True, help_text="Where what was called stands; none where nobody said."
    )
    trace_id = models.CharField(max_length=32, default="", help_text="Lower-case hexadecimal.")
    span_id = models.CharField(max_length=16, default="")
    attributes = StoredJSON(default=dict)
    body = models.CharField(max_length=1000, default="", help_text="A sentence for people; nothing decides by it.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "uid"], name="fact_once")]
        indexes = [
            models.Index(fields=["environment", "event", "at_us"], name="fact_by_event"),
            # On PostgreSQL one for each event that is asked for by breaker instead: what alters it must say so.
            models.Index(fields=["environment", "breaker", "event", "at_us"], name="fact_by_breaker"),
            models.Index(
                fields=["agent", "operation", "at_us"],
                name="fact_degradations",
                condition=Q(event__in=DEGRADATION_EVENTS),
            ),
            models.Index(fields=["agent", "at_us"], name="fact_by_instance", condition=Q(event__in=INSTANCE_EVENTS)),
            models.Index(fields=["environment", "run", "at_us"], name="fact_by_run", condition=Q(run__gt="")),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.operation}".rstrip()


class BreakerState(models.Model):
    """The state of one breaker in one instance, by the newest breaker_state_changed. Folded.

    Any fact that names the breaker makes the row: a breaker of which no move is known is `closed` and has an empty
    position and no `at_us`, because every breaker begins closed.
    """

    environment = _environment()
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_constraint=False, related_name="+")
    breaker = _name()
    seen_us = models.BigIntegerField(help_text="The minute of the newest fact that names this breaker.")
    position = _position()
    at_us = models.BigIntegerField(null=True, help_text="Since when it is in this state.")
    state = models.CharField(max_length=16, default="closed")
    previous_state = models.CharField(max_length=16, default="")
    trigger = models.CharField(max_length=32, default="")
    operation = _name()
    calls = models.BigIntegerField(null=True)
    failures = models.BigIntegerField(null=True)
    failure_rate = models.FloatField(null=True)
    threshold = models.FloatField(null=True)
    last_category = models.CharField(max_length=32, default="")
    wait_s = models.FloatField(null=True)
    override_id = models.CharField(max_length=NAME_CHARS, default="")
    revision = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "breaker", "agent"], name="breaker_state_once")]

    def __str__(self) -> str:
        return f"{self.breaker}: {self.state}"


class SettingsInForce(models.Model):
    """What one operation of one instance really goes by, by its newest settings_in_force. Folded.

    An empty operation stands for the whole process. `stated` holds `settings`, `in_code` and `held` of that fact.
    """

    environment = _environment()
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+")
    operation = _name()
    position = _position()
    at_us = models.BigIntegerField(help_text="When it was stated.")
    revision = models.BigIntegerField(default=0)
    version = models.IntegerField(default=1)
    kind = models.CharField(max_length=32, default="")
    breaker = _name()
    count = models.BigIntegerField(default=0, help_text="Of the process: how many operations it has.")
    stated = models.TextField(default="{}", help_text="JSON: three maps of settings by name.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "operation"], name="settings_once")]

    def __str__(self) -> str:
        return f"{self.operation or 'the process'} at revision {self.revision}"


class Degradation(models.Model):
    """An interval in which one instance answered an operation with less than the real thing. Folded.

    One open interval at most per agent, operation and kind: a second start prolongs it, an end without a known start
    reaches back by its own duration.
    """

    environment = _environment()
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+")
    operation = _name()
    kind = models.CharField(max_length=32, default="")
    from_name = _name()
    to_name = _name()
    reason = models.CharField(max_length=1000, default="")
    category = models.CharField(max_length=32, default="")
    started_us = models.BigIntegerField()
    ended_us = models.BigIntegerField(null=True, help_text="None: still going on.")
    calls = models.BigIntegerField(default=0, help_text="Calls answered so; known when it has ended.")
    last_position = models.BinaryField(max_length=POSITION_BYTES, help_text="Of the last fact that shaped it.")

    class Meta:
        indexes = [
            models.Index(fields=["agent", "operation", "kind", "last_position"], name="degradation_by_agent"),
            models.Index(fields=["environment", "started_us"], name="degradation_by_start"),
            models.Index(fields=["environment", "ended_us"], name="degradation_by_end"),
            models.Index(fields=["environment"], name="degradation_open", condition=Q(ended_us__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.operation}: {self.kind} since {self.started_us}"


class _Sum(models.Model):
    """What happened in a span of time, by dimensions. Folded.

    `failures`, `retries` … count facts; `calls`, `attempts` and `successes` add up calls_counted, which carries the
    denominators. A dimension that does not apply is empty. `dimensions` is a digest of all of them, which keeps the
    unique index narrow.
    """

    environment = _environment()
    dimensions = models.BinaryField(max_length=16)
    service = _name()
    operation = _name()
    breaker = _name()
    source = _name()
    is_foreground = models.BooleanField(default=False)
    provider = _name()
    model = _name()
    category = models.CharField(max_length=32, default="")
    subject = models.CharField(max_length=NAME_CHARS, default="", help_text="The breaker, else the operation.")
    facts = models.BigIntegerField(
        default=0, help_text="Facts of all kinds but calls_counted, settings_in_force and heartbeats."
    )
    failures = models.BigIntegerField(default=0)
    rate_limited = models.BigIntegerField(default=0, help_text="Failures with status 429, or said to be rate_limited.")
    overloaded = models.BigIntegerField(default=0, help_text="Failures with status 529, or said to be overloaded.")
    retries = models.BigIntegerField(default=0)
    fallbacks = models.BigIntegerField(default=0)
    rejections = models.BigIntegerField(default=0, help_text="Calls that were not made; not those let through.")
    exhausted = models.BigIntegerField(default=0)
    degradations = models.BigIntegerField(default=0, help_text="Degradations that began.")
    model_fallbacks = models.BigIntegerField(default=0)
    calls = models.BigIntegerField(default=0)
    attempts = models.BigIntegerField(default=0)
    successes = models.BigIntegerField(default=0)
    inner_retries = models.BigIntegerField(default=0, help_text="Retries by clients themselves, within attempts.")

    class Meta:
        abstract = True


class MinuteSum(_Sum):
    """One minute, in all dimensions."""

    minute = models.IntegerField(help_text="Whole minutes since the epoch.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "minute", "dimensions"], name="minute_sum_once"),
        ]
        indexes = [models.Index(fields=["environment", "subject", "minute"], name="minute_sum_by_subject")]

    def __str__(self) -> str:
        return f"{self.operation} at minute {self.minute}"


class SpanSum(_Sum):
    """A longer span, or fewer dimensions, by `events.projections.sum_views`; `operation` may be empty there."""

    view = models.CharField(max_length=16, help_text="A word of `View`.")
    minutes = models.SmallIntegerField(help_text="How long the span is.")
    span = models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "view", "minutes", "span", "dimensions"], name="span_sum_once"
            ),
        ]
        indexes = [
            models.Index(fields=["environment", "view", "subject", "minutes", "span"], name="span_sum_by_subject"),
            # What is kept to some calls looks into every span: these lead to the few rows of it that tell, of the view
            # that keeps services. Their columns never change, but for the counters of what was refused, which few rows
            # have. `view` stands in each: without statistics the index is taken of which a question says most.
            models.Index(
                fields=["environment", "view", "provider", "minutes", "span", "service"],
                name="span_sum_of_provider",
                condition=Q(service__gt="", provider__gt=""),
            ),
            models.Index(
                fields=["environment", "view", "service", "minutes", "span"],
                name="span_sum_of_service",
                condition=Q(service__gt=""),
            ),
            models.Index(
                fields=["environment", "view", "minutes", "span", "service"],
                name="span_sum_refused",
                condition=Q(service__gt="") & (Q(fallbacks__gt=0) | Q(rejections__gt=0)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.view} {self.operation or self.category} over {self.minutes} minutes"


LANE_MINUTES = (1, 5, 15, 120)
"""The spans over which the moves of one breaker in one instance are summed up."""


class InstanceMoves(models.Model):
    """How one breaker moved in one instance in a span of time: enough to draw the span as one bin of its lane. Folded.

    `first` and `last` are moments with the rank of a state in the low three bits (`summing.ranked`): of the
    first move what it left, of the last what it entered. `worst` is the rank of the worst state entered.
    """

    environment = _environment()
    breaker = _name()
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+")
    minutes = models.SmallIntegerField(help_text="How long the span is.")
    span = models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`.")
    moves = models.BigIntegerField()
    worst = models.SmallIntegerField()
    first = models.BigIntegerField()
    last = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "breaker", "minutes", "span", "agent"], name="instance_moves_once"
            ),
        ]
        indexes = [models.Index(fields=["minutes", "span"], name="instance_moves_by_time")]

    def __str__(self) -> str:
        return f"{self.breaker}: {self.moves} moves over {self.minutes} minutes"


class Quarantine(models.Model):
    """What could not be stored and why: the newest of each environment.

    `content` is for people: masked, cut to the first 4 kB. `payload` is for the replay: a whole request with this one
    record in it, or a body that could not be read, its secrets blotted out; empty where it was too large to be kept.
    """

    environment = _environment()
    received_us = models.BigIntegerField()
    key_prefix = models.CharField(max_length=16, default="")
    reason = models.CharField(max_length=200)
    size_bytes = models.IntegerField(help_text="How long it was before it was cut.")
    content = models.TextField()
    signal = models.CharField(max_length=8, default="logs", help_text="A word of events.otlp.sent.Signal.")
    encoding = models.CharField(max_length=32, default="", help_text="The media type of the payload.")
    payload = models.BinaryField(default=b"")
    tries = models.IntegerField(default=0, help_text="How often it was replayed in vain.")

    class Meta:
        indexes = [models.Index(fields=["environment", "received_us"], name="quarantine_by_time")]

    def __str__(self) -> str:
        return self.reason


class SpanMark(models.Model):
    """What is remembered of a span for a day, so that an error that climbs through a trace is told once.

    `errors`: for each error that the span tells of its uid, type, whether the span ended with it, when that was, and
    whether it is told as a failure; and for each exception that was logged in it the uid that it came with, that of the
    error that it is, and None. See events.derived.traces.
    """

    environment = _environment()
    trace_id = models.CharField(max_length=32)
    span_id = models.CharField(max_length=16)
    parent_id = models.CharField(max_length=16, default="")
    ended_ns = models.BigIntegerField(default=0, help_text="0: only its children told of it so far.")
    is_failed = models.BooleanField(default=False)
    error_type = models.CharField(max_length=NAME_CHARS, default="")
    whole_ns = models.BigIntegerField(default=0, help_text="The end of its last child that went well.")
    says = models.JSONField(null=True, help_text="See events.derived.marks.Says.")
    errors = models.JSONField(default=list)
    passed_on = models.JSONField(null=True, help_text="The failure that an error it passes on would be of its own.")
    seen_us = models.BigIntegerField(help_text="When it was last told of.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "trace_id", "span_id"], name="span_mark_once")]
        indexes = [models.Index(fields=["seen_us"], name="span_mark_by_time")]

    def __str__(self) -> str:
        return f"{self.trace_id}/{self.span_id}"


class KnownName(models.Model):
    """A name that has a place of its own in an environment's sums and states; of each kind there is a most."""

    environment = _environment()
    kind = models.CharField(max_length=16, help_text="A word of events.ingest.cardinality.Kind.")
    name = models.CharField(max_length=2 * NAME_CHARS + 1)
    seen_day = models.IntegerField(help_text="Days since the epoch; a name that is not seen for long gives way.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "kind", "name"], name="known_name_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Tally(models.Model):
    """How often something happened to facts on their way in that nobody may miss: set aside, let go, folded."""

    environment = _environment()
    name = models.CharField(max_length=32)
    count = models.BigIntegerField(default=0)
    last_us = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "name"], name="tally_once")]

    def __str__(self) -> str:
        return f"{self.name}: {self.count}"


class NamedFailures(models.Model):
    """The classification rules of an environment's live policy, for facts that are made here."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, unique=True)
    rules = models.JSONField(default=list, help_text="What unknown failures are, as the policy says.")

    def __str__(self) -> str:
        return self.environment


class HiddenTexts(models.Model):
    """The masking rules of an environment's live policy, for what arrives."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, unique=True)
    section = models.JSONField(default=dict, help_text="What is masked beside what is masked anyway.")

    def __str__(self) -> str:
        return self.environment
