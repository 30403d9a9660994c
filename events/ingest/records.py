"""What a log record that was sent becomes: a row of facts, a line in the quarantine, or nothing.

The choices, in one place:
- An event of ours, in any spelling of wire.names, is a fact. All other records that have an event name, inform or warn
  (severity INFO or higher) or carry an exception are facts named `log`; the rest, which is for debugging, is counted
  and said to the sender, not kept. An exception is a failure, too, beside its `log`.
- The uid is log.record.uid: a UUID as its 16 bytes, any other text as a digest. A record without one gets a digest of
  its resource, scope, time, event, attributes and body, behind its time in milliseconds, so that a resend is recognised
  and the index grows at its end. Two records that are equal in all of that are one. It is made of them before the
  environment's own rules hide anything, so that a change of those makes no second fact of one; and with a key, so that
  nobody who reads the table finds out by trying what was hidden.
- A time of 0 is unknown: the observed time counts, then the moment of receipt. No fact is later than its receipt: a
  state from the future would hide what really follows it. A clock more than a year behind is wrong, too; anything
  younger is an outbox that was offline. `stated_us` keeps what was said. Records whose clock runs ahead stay in order.
- Long texts are cut, secrets masked, attributes beyond 128 dropped (ours last). A record is refused only where that
  would leave nothing sensible: more than 1,024 attributes, or 64 KiB of them after cutting.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import orjson
from django.conf import settings

from events.derived import Keys, Rules, agent_event_of, derive_from_agent_event, derive_from_log, is_exception
from events.derived.marks import Links, Marks
from events.ingest.cleaning import MESSAGE_CHARS, PLAIN, Cleaned, Cleaner
from events.models import FINGERPRINT_CHARS, NAME_CHARS
from events.otlp.refused import KEPT_BYTES, KEPT_EACH, Refused, kept_of
from events.otlp.remarks import WRONG_ID_TEXT, Remark, Remarks, remark, remark_missing, remark_nameless, remark_unknown
from events.otlp.rewriting import request_of
from events.otlp.sent import WRONG_ID, Batch, Encoding, Sent, Signal, mended_id
from events.projections.stated import event_name_in
from recovery_ops.rules.enums import Category
from recovery_ops.wire import canonical, category_of, names, state_of

LOG = "log"
"""The event of a record that is none of ours."""
ATTRIBUTES = 128
MOST_ATTRIBUTES = 1024
ATTRIBUTES_BYTES = 65536
OLDEST_US = 366 * 86_400 * 1_000_000
NOT_OURS = "event.name"
"""Where a `log` keeps the event name that was sent; also the old attribute for it, taken in."""
_MOST_INT64 = 2**63 - 1
_BREAKS = re.compile(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")

_BREAKER = names.ATTRIBUTES["breaker"]
_CATEGORY = names.ATTRIBUTES["category"]
_STATE = names.ATTRIBUTES["state"]
_PROVIDER = names.ATTRIBUTES["provider"]
_MODEL = names.ATTRIBUTES["model"]
_REGION = names.ATTRIBUTES["region"]
_SHORTER = ((names.ATTRIBUTES["message"], MESSAGE_CHARS), (names.ATTRIBUTES["fingerprint"], FINGERPRINT_CHARS))
"""Attributes that are cut shorter than others, with their most characters."""
_ALIASES = frozenset(names.ATTRIBUTE_ALIASES)
_INSTANCE_NAMES = (names.SERVICE_INSTANCE_ID, "k8s.pod.name", "host.name")
_BREAKER_EVENTS = frozenset({"breaker_state_changed", "breaker_rejected"})


class Unstorable(ValueError):
    """A record that goes to the quarantine, and why."""


class AgentName(NamedTuple):
    """Which instance speaks."""

    environment: str
    service: str
    instance: str


@dataclass(slots=True)
class Row:
    """One fact on its way into the table: the columns, and what folding needs beside them."""

    environment: str
    uid: bytes
    event: str
    at_us: int
    received_us: int
    stated_us: int | None
    sequence_number: int
    severity: int
    operation: str
    breaker: str
    source: str
    is_foreground: bool
    run: str
    category: str
    state: str
    provider: str
    model: str
    region: str | None
    trace_id: str
    span_id: str
    attributes_json: str
    body: str
    agent: AgentName
    attributes: dict[str, Any]
    agent_id: int = 0

    @property
    def position(self) -> bytes:
        """Sorts like (at_us, sequence_number, uid); what the newest of two facts is decided by."""
        return struct.pack(">QQ", self.at_us, self.sequence_number) + self.uid


@dataclass(slots=True)
class Intake:
    """What came of one request."""

    environment: str
    received_us: int
    key_prefix: str = ""
    rows: list[Row] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    ignored: int = 0
    derived: int = 0
    """Rows made from logged exceptions."""
    logged: list[tuple[Row, bytes]] = field(default_factory=list)
    """Those of them that were logged in a span, with the uid that each was made with: that of its row may change."""
    remarks: Remarks = field(default_factory=Counter)
    signal: Signal = Signal.LOGS
    encoding: Encoding | None = None
    marks: Marks = field(default_factory=dict)
    """What is to be remembered of spans, to tell whose error is a failure."""
    links: Links = field(default_factory=dict)
    held: list[Row] = field(default_factory=list)
    """Errors that are no failures as far as this request knows."""
    cleaner: Cleaner = PLAIN
    """What hides secrets in this environment."""
    lines: Sequence[Any] = ()
    """What of `refused` is ready to be kept: rows of the quarantine, which nothing here knows."""
    kept_bytes: int = field(default=0, compare=False)
    """What those that were refused cost so far."""

    @property
    def weight(self) -> int:
        """How many rows it has to be stored, or of what takes about as long."""
        return len(self.rows) + len(self.held) + len(self.marks)

    def refuse(self, reason: str, written: Callable[[], bytes], encoding: Encoding | None = None) -> None:
        """Count a record that is refused, and keep it as far as there is room."""
        if len(self.refused) >= KEPT_EACH or self.kept_bytes >= KEPT_BYTES:
            self.refused.append(Refused(reason, b"", encoding))
            return
        kept = kept_of(reason, written(), encoding, room_bytes=KEPT_BYTES - self.kept_bytes)
        self.kept_bytes += kept.cost_bytes
        self.refused.append(kept)


@dataclass(frozen=True, slots=True)
class _Origin:
    """What all records of one resource and scope have in common."""

    agent: AgentName
    attributes: dict[str, object]
    arrived: dict[str, object]
    """The same before the environment's own rules hid anything of it; only a digest is made of it."""
    digest: bytes
    region: str | None
    """Where its failures happen that say no region of their own."""


def read_records(
    batches: Iterable[Batch],
    environment: str,
    received_us: int,
    key_prefix: str = "",
    rules: Rules = tuple,
    cleaner: Cleaner = PLAIN,
) -> Intake:
    """Turn a request's records into rows, all of this environment; the same records give the same rows, always.

    `rules` are those of the policy for failures that exceptions in logs tell, asked for when there are any.
    """
    intake, keys = Intake(environment, received_us, key_prefix, cleaner=cleaner), Keys()
    nameless: set[bytes] = set()
    origins = _Origins(environment, cleaner)
    for batch in batches:
        for unreadable in batch.unreadable:
            intake.refuse(unreadable.reason, unreadable.alone)
        if not batch.records:
            continue  # there may be thousands of these
        origin = origins.of(batch)
        for sent in batch.records:
            try:
                row = _row(sent, origin, intake)
            except (Unstorable, ValueError, OverflowError) as fault:
                intake.refuse(str(fault), partial(_written, sent, batch), Encoding.JSON)
                continue
            if row is None:
                intake.ignored += bool(sent.attributes or sent.body is not None)  # else it is an empty envelope
                continue
            intake.rows.append(row)
            if not sent.attributes.get(names.UID):
                remark_nameless(intake.remarks, row.uid in nameless, is_timeless=not (sent.time_ns or sent.observed_ns))
                nameless.add(row.uid)
            if row.event is LOG:
                _derive(sent, batch.scope, origin, row, keys, rules, intake)
    _keep_order(intake)
    return intake


def _derive(sent: Sent, scope: str, origin: _Origin, row: Row, keys: Keys, rules: Rules, intake: Intake) -> None:
    """Add the failure that a record of plain kind tells of, beside its row."""
    agent_event = agent_event_of(row.attributes[NOT_OURS], sent.body, scope)
    if not agent_event and not is_exception(sent.attributes):
        return
    shown = _shown(sent, intake.cleaner)._replace(trace_id=row.trace_id, span_id=row.span_id)
    if agent_event:
        failure = derive_from_agent_event(shown, agent_event, row.uid, rules())
    else:
        failure = derive_from_log(shown, scope, row.uid, keys, rules())
    derived = None if failure is None else _row(failure, origin, intake)
    if derived is None:
        return
    intake.rows.append(derived)
    intake.derived += 1
    if not agent_event and derived.trace_id and derived.span_id:
        intake.logged.append((derived, derived.uid))


def _shown(sent: Sent, cleaner: Cleaner) -> Sent:
    """The same record as it is to be seen: what is hidden of an exception is hidden of the failure that it tells."""
    if type(sent.attributes) is Cleaned:
        return sent
    return sent._replace(attributes=cleaner.map(sent.attributes, MOST_ATTRIBUTES))


class _Origins:
    """What the batches of a request have in common. One resource may have thousands of scopes: it is read once."""

    def __init__(self, environment: str, cleaner: Cleaner) -> None:
        self._environment, self._cleaner = environment, cleaner
        self._resource: Mapping[str, object] | None = None
        self._begun = hashlib.sha256()
        self._common = _Origin(AgentName("", "", ""), {}, {}, b"", None)

    def of(self, batch: Batch) -> _Origin:
        """What all records of a batch have in common."""
        if batch.resource is not self._resource:
            self._read(batch.resource)
        digest = self._begun.copy()
        digest.update(_canonical(batch.scope) + b"]")
        return replace(self._common, digest=digest.digest())

    def _read(self, given: Mapping[str, object]) -> None:
        resource = self._cleaner.map(given, ATTRIBUTES)
        service = short_name(resource.get(names.SERVICE_NAME)) or "unknown_service"
        instance = next((name for key in _INSTANCE_NAMES if (name := short_name(resource.get(key)))), "")
        arrived = PLAIN.map(given, ATTRIBUTES) if self._cleaner.masking else resource
        self._resource = given
        self._begun = hashlib.sha256(b"[" + _canonical(arrived) + b",")
        self._common = _Origin(
            AgentName(self._environment, service, instance),
            _of_each(resource, self._environment),
            _of_each(arrived, self._environment),
            b"",
            short_name(resource.get(_REGION)) or None,
        )


def _of_each(resource: dict[str, object], environment: str) -> dict[str, object]:
    """What is kept of a resource with each of its facts, so that an agent can be rebuilt from its facts."""
    found: dict[str, object] = {
        key: value for key in (names.SERVICE_VERSION, names.GROUP) if (value := short_name(resource.get(key)))
    }
    stated_environment = short_name(resource.get(names.ENVIRONMENT_NAME))
    if stated_environment not in ("", environment):
        found[names.ENVIRONMENT_NAME] = stated_environment
    return found


def _remarked(sent: Sent, event: str, stated_name: str, given: Mapping[str, object], intake: Intake) -> Sent:
    """The record with ids that can be stored; counts what is wrong with its name, attributes and ids."""
    if event is not LOG:
        remark_missing(intake.remarks, event, given)
    elif stated_name.startswith(names.PREFIX):
        remark_unknown(intake.remarks, intake.cleaner.text(stated_name, NAME_CHARS))
    if sent.trace_id[:1] == WRONG_ID or sent.span_id[:1] == WRONG_ID:
        remark(intake.remarks, Remark.WRONG_ID, WRONG_ID_TEXT)
        return sent._replace(trace_id=mended_id(sent.trace_id), span_id=mended_id(sent.span_id))
    return sent


def _row(sent: Sent, origin: _Origin, intake: Intake) -> Row | None:
    given = _given(sent.attributes)
    stated_name = event_name_in(sent.event_name, given.get(NOT_OURS))
    event = _event_of(stated_name[:NAME_CHARS])
    if event is None:
        if not stated_name and sent.severity < names.INFO and not is_exception(given):
            return None
        event = LOG
    sent = _remarked(sent, event, stated_name, given, intake)
    attributes = _attributes(given, origin.attributes, intake.cleaner)
    take = attributes.pop
    take(names.UID, None)
    if event is LOG:
        attributes[NOT_OURS] = intake.cleaner.text(stated_name, NAME_CHARS)
    body = _body(sent.body, intake.cleaner)
    at_us, stated_us = _moment(sent, intake.received_us)
    uid = _uid(given.get(names.UID))
    if uid is None:
        is_masked = bool(intake.cleaner.masking)
        uid = _digest_uid(sent, origin, *(_arrived(sent, origin, event) if is_masked else (attributes, body)))
    operation = short_name(take(names.OPERATION, ""))
    breaker = short_name(take(_BREAKER, ""))
    row = Row(
        origin.agent.environment,
        uid,
        event,
        at_us,
        intake.received_us,
        stated_us,
        _sequence(take(names.SEQUENCE_NUMBER, 0)),
        sent.severity if 0 <= sent.severity <= 24 else 0,
        operation,
        breaker or (operation if event in _BREAKER_EVENTS else ""),
        short_name(take(names.QUERY_SOURCE, "")),
        _is_true(take(names.IS_FOREGROUND, False)),
        short_name(take(names.RUN, "")),
        _word(attributes, _CATEGORY, intake) if _CATEGORY in attributes else "",
        _word(attributes, _STATE, intake) if _STATE in attributes else "",
        short_name(take(_PROVIDER, "")),
        short_name(take(_MODEL, "")),
        short_name(take(_REGION)) or origin.region if _REGION in attributes else origin.region,
        sent.trace_id,
        sent.span_id,
        "",
        body,
        origin.agent,
        attributes,
    )
    row.attributes_json = _json(attributes)
    return row


def _given(attributes: dict[str, object]) -> dict[str, object]:
    """What counts of the attributes of a record, under our names."""
    given = attributes if _ALIASES.isdisjoint(attributes) else canonical(attributes)
    return _fewer(given) if len(given) > ATTRIBUTES else given


def _attributes(given: dict[str, object], of_origin: dict[str, object], cleaner: Cleaner) -> dict[str, Any]:
    """All that is to be stored, cleaned."""
    cleaned = cleaner.map(given, ATTRIBUTES)
    found: dict[str, Any] = of_origin | cleaned if of_origin else cleaned.copy()
    for name, most in _SHORTER:
        value = found.get(name)
        if type(value) is str and len(value) > most:
            found[name] = value[: most - 1] + "…"
    return found


@lru_cache(maxsize=4096)
def _event_of(stated_name: str) -> str | None:
    return names.event_name_of(stated_name)


def _fewer(given: dict[str, object]) -> dict[str, object]:
    """The first 128 attributes, ours before all others."""
    if len(given) > MOST_ATTRIBUTES:
        raise Unstorable(f"has {len(given)} attributes; {MOST_ATTRIBUTES} are the most")
    ours = {key: value for key, value in given.items() if key.startswith(names.PREFIX) or key in _OURS}
    kept = list((ours | given).items())[:ATTRIBUTES]
    return dict(kept)


_OURS = frozenset({names.UID, names.RUN, *names.ATTRIBUTES.values()})


def _body(body: object, cleaner: Cleaner) -> str:
    if body is None:
        return ""
    text = body if isinstance(body, str) else _json(cleaner.value(body))
    return cleaner.text(text, MESSAGE_CHARS)


def _moment(sent: Sent, received_us: int) -> tuple[int, int | None]:
    """When it happened, and what the sender's clock said if that is something else."""
    stated_us = (sent.time_ns or sent.observed_ns) // 1000
    if received_us - OLDEST_US <= stated_us <= received_us:
        return stated_us, None
    return received_us, min(stated_us, _MOST_INT64) or None


def _keep_order(intake: Intake) -> None:
    """Spread the records whose clock runs ahead over the last microseconds before the receipt, in their own order."""
    ahead = [row for row in intake.rows if row.stated_us is not None and row.stated_us > row.received_us]
    ahead.sort(key=lambda row: (row.stated_us, row.sequence_number))
    for distance, row in enumerate(reversed(ahead)):
        row.at_us = intake.received_us - distance


def _uid(given: object) -> bytes | None:
    if type(given) is not str or not given:
        return None
    if len(given) == 36 and given[8] == given[13] == given[18] == given[23] == "-":
        try:
            found = bytes.fromhex(given.replace("-", ""))
        except ValueError:
            found = b""
        if len(found) == 16:
            return found
    return hashlib.sha256(given.encode(errors="replace")).digest()[:16]


def _arrived(sent: Sent, origin: _Origin, event: str) -> tuple[dict[str, Any], str]:
    """The attributes and the body as they are where the environment has no rules of its own."""
    given = _given(sent.attributes if sent.arrived is None else sent.arrived)
    attributes = _attributes(given, origin.arrived, PLAIN)
    attributes.pop(names.UID, None)
    if event is LOG:
        attributes[NOT_OURS] = PLAIN.text(event_name_in(sent.event_name, given.get(NOT_OURS)), NAME_CHARS)
    return attributes, _body(sent.body, PLAIN)


def _digest_uid(sent: Sent, origin: _Origin, attributes: dict[str, Any], body: str) -> bytes:
    time_ns = sent.time_ns or sent.observed_ns
    content = [str(time_ns), sent.event_name, sent.severity, attributes, body, sent.trace_id, sent.span_id]
    key = _key_of(settings.SECRET_KEY)
    digest = hashlib.blake2b(origin.digest + _canonical(content), key=key, digest_size=10).digest()
    return (time_ns // 1_000_000 & 0xFFFF_FFFF_FFFF).to_bytes(6, "big") + digest


@lru_cache(maxsize=4)
def _key_of(secret: str) -> bytes:
    return hashlib.sha256(b"the uid of a record that has none" + secret.encode()).digest()


def _canonical(content: object) -> bytes:
    try:
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # half a surrogate pair, which only a name that was not cleaned can have
        return json.dumps(content, sort_keys=True).encode("ascii")


def short_name(given: object) -> str:
    """A short text for a column."""
    if type(given) is str and len(given) <= NAME_CHARS and given.isprintable():
        return given
    # On one line: a name stands in addresses, which hold no line breaks, and in lines of logs and files.
    text = "" if given is None else _BREAKS.sub(" ", str(given))
    return text if len(text) <= NAME_CHARS else text[: NAME_CHARS - 1] + "…"


def _word(attributes: dict[str, Any], name: str, intake: Intake) -> str:
    """A category or a state in our spelling. One that is not understood stays among the attributes, with a warning."""
    given = attributes.get(name)
    if given is None:
        return ""
    word = _known_word(name, given if type(given) is str else str(given))
    if word is None:
        remark(intake.remarks, Remark.UNKNOWN_VALUE, f"{name} has a value that is not understood")
        return Category.UNKNOWN.value if name == _CATEGORY else ""
    del attributes[name]
    return word


@lru_cache(maxsize=1024)
def _known_word(name: str, given: str) -> str | None:
    try:
        return (category_of(given) if name == _CATEGORY else state_of(given)).value
    except ValueError:
        return None


def _sequence(given: object) -> int:
    if type(given) is str and given.isdecimal() and len(given) < 20:
        given = int(given)
    return given if type(given) is int and 0 <= given <= _MOST_INT64 else 0


def _is_true(given: object) -> bool:
    return given is True or (type(given) is str and given.lower() == "true")


def _json(value: object) -> str:
    text = orjson.dumps(value)
    if len(text) > ATTRIBUTES_BYTES:
        raise Unstorable(f"holds {len(text)} bytes after cutting; {ATTRIBUTES_BYTES} are the most")
    return text.decode()


def _written(sent: Sent, batch: Batch) -> bytes:
    try:
        return request_of(sent, batch.resource, batch.scope)
    except (orjson.JSONEncodeError, RecursionError):
        return repr(sent).encode(errors="backslashreplace")
