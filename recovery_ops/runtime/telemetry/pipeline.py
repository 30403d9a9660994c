"""How events leave the agent: a bounded queue, a thread that turns them into OpenTelemetry log records, an outbox.

What the caller's thread pays for an event is the time, the ids of the current span and one append. Everything else is
done by a daemon thread, which also loads OpenTelemetry, so that importing the runtime stays cheap.

When: an ordinary event waits at most 10 ms for company and is in the outbox within 20 ms on a machine with time to
spare. A transition, an escalation, a checkpoint or an answer about the desired state is in it *at once*: the thread is
woken for it and writes it with an fsync; the caller is not made to wait for that. What a kill can catch is what the
thread had not written yet (`manage.py drill facts J16` counts it), in the first second of a process everything, for the
thread is loading; what a power cut can catch is told in `outbox_file`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from recovery_ops import __version__
from recovery_ops.rules.events import (
    BreakerStateChanged,
    CheckpointRestored,
    CheckpointSaved,
    DesiredStateApplied,
    DesiredStateRejected,
    Escalated,
    Event,
    FailureClassified,
    Instance,
    Record,
)
from recovery_ops.rules.policy.masking_rules import NOTHING_MORE, Masking, together
from recovery_ops.runtime.masking import ActiveMasking, AllHidden
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock, uuid7
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.telemetry.outbox import Entry, Outbox, Rank
from recovery_ops.runtime.telemetry.outbox_file import Envelope
from recovery_ops.runtime.telemetry.queue import EventQueue

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import SpanContext

    from recovery_ops.runtime.telemetry.exporter import Exporter
    from recovery_ops.wire import WireEvent

AT_ONCE: frozenset[type[Event]] = frozenset(
    {BreakerStateChanged, Escalated, CheckpointSaved, CheckpointRestored, DesiredStateApplied, DesiredStateRejected}
)
"""Written at once, and never dropped for the bound of the outbox."""
EXIT_S = 2.0
_ATTRIBUTES = 128
_INT64 = range(-(2**63), 2**63)
_modules = sys.modules


class _Taken(NamedTuple):
    """An event as the caller left it. On the caller's thread a plain tuple of this shape is made: that is quicker."""

    event: Event
    source: str
    is_foreground: bool
    run: str
    policy_version: str
    at_ns: int
    span: SpanContext | None


def rank_of(kind: type[Event]) -> Rank:
    """Who goes first when there is no room."""
    if kind in AT_ONCE:
        return Rank.ALWAYS
    return Rank.FAILURE if kind is FailureClassified else Rank.EVENT


class Telemetry:
    """Takes events from any thread or task and sees to it that they reach the server. Fork-safe.

    It owns the outbox and the sender from here on, and closes them. Without a sender events stay in the outbox;
    without an outbox they wait in memory; without either they only go to the readers. `through_global_provider`
    gives them to the application's own OpenTelemetry logger provider instead of the outbox and the sender: then the
    application's exporter decides what becomes of them, and its resource says who sent them. `masking` is asked for
    each event what is hidden of it before it leaves the process, and so does each `Recovery` that sends by it.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        outbox: Outbox | None,
        clock: Clock,
        send: Exporter | None,
        queue_limit: int = 20_000,
        group: str = "",
        through_global_provider: bool = False,
        masking: Callable[[], Masking] = lambda: NOTHING_MORE,
    ) -> None:
        self._asked_masking = masking
        self._hidden = AllHidden()
        self._base, self.instance = instance, instance
        self._group = group
        self._clock = clock
        self._wall_ns = clock.wall_ns
        self._outbox = outbox if outbox is not None or send is None else Outbox(None, clock=clock)
        self._send = send
        self._is_through_provider = through_global_provider
        self._export: Callable[[Sequence[Record]], list[Entry]] | None = None
        self._readers: tuple[Callable[[Record], None], ...] = ()
        self._notices = TroubleLog(logging.getLogger(__name__))
        self._sequence = self._outbox.last_sequence if self._outbox else 0
        self._lost: Counter[Rank] = Counter()
        self._losing = threading.RLock()
        self._exit_by: float | None = None
        self._intake: EventQueue[tuple[Any, ...]] = EventQueue(
            self._deliver, prepare=self._prepare, name="recovery-ops-telemetry", limit=queue_limit
        )
        forks.follow(self)
        self._at_exit = functools.partial(_flush_at_exit, weakref.ref(self))
        atexit.register(self._at_exit)
        _before_threads_end(self._intake)
        self._intake.start()

    def emit(
        self, event: Event, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        """Take an event: its time and the current span's ids are those of this moment. Never blocks, never raises."""
        try:
            span = None
            # Nobody can have a span before this module is there, and only an application that traces loads it early.
            trace = _modules.get("opentelemetry.trace")
            if trace is not None:
                try:
                    span = trace.get_current_span().get_span_context()
                except Exception:  # half loaded by another thread, or somebody's own span: go without
                    span = None
            taken = (event, source, is_foreground, run, policy_version, self._wall_ns(), span)
            if not self._intake.put(taken, type(event) in AT_ONCE):
                self._lose(type(event))
        except Exception:  # an event is never worth an error in the agent
            self._lose(type(event))

    def flush(self, timeout_s: float) -> bool:
        """Everything emitted so far is in the outbox and, if the server can be reached now, sent.

        True once it is safe: in the outbox's file, or delivered. A server that fails is asked once, not waited for.
        """
        until = self._clock.now() + timeout_s
        if not self._intake.flush(timeout_s):
            return False
        rest_s = max(0.0, until - self._clock.now())
        if self._is_through_provider:
            return _flush_global_provider(rest_s)
        if self._outbox is None:
            return True
        is_sent = self._send is not None and self._send.push(rest_s)
        return is_sent or self._outbox.is_durable

    def close(self, timeout_s: float = 2.0) -> None:
        """Take no more events, bring those taken into the outbox, send what can be sent in time, and let go."""
        until = self._clock.now() + timeout_s
        if self._exit_by is not None:
            until = min(until, self._exit_by)
        is_drained = self._intake.close(max(0.0, until - self._clock.now()))
        if self._send is not None:
            self._send.push(max(0.0, until - self._clock.now()))
            self._send.close(max(0.1, until - self._clock.now()))
        if self._outbox is not None and is_drained:
            self._outbox.close()
        atexit.unregister(self._at_exit)

    @property
    def dropped(self) -> int:
        """How many events of this instance were lost, since its outbox was made."""
        return sum(self._lost.values()) + (self._outbox.dropped if self._outbox else 0)

    @property
    def pending(self) -> int:
        """How many events are not yet delivered."""
        return len(self._intake) + (self._outbox.pending if self._outbox else 0)

    def add_reader(self, read: Callable[[Record], None]) -> None:
        """Have each record read as it is made, in the background thread."""
        self._readers = (*self._readers, read)

    def hide_by(self, hides: ActiveMasking, whose: object) -> None:
        """Hide what it says, too, of each event that has not been written yet; `whose` is not kept alive."""
        self._hidden.add(hides, whose)

    def before_fork(self) -> None:
        """The outbox's files are closed, so that two processes never share a connection."""
        if self._outbox is not None:
            self._outbox.before_fork()

    def after_fork_in_parent(self) -> None:
        """The parent goes on as if nothing had been."""
        if self._outbox is not None:
            self._outbox.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """The child is another instance, with a queue, an outbox and threads of its own, begun by its first event."""
        self.instance = replace(self._base, instance=self._base.instance + forks.process_mark())
        self._losing = threading.RLock()
        self._hidden.after_fork_in_child()
        self._lost = Counter()
        self._sequence = 0
        self._intake.after_fork_in_child()
        if self._send is not None:
            self._send.after_fork_in_child()
        if self._outbox is not None:
            self._outbox.after_fork_in_child(forks.process_mark())

    def _masking(self) -> Masking:
        """All that is hidden at this moment."""
        return together([self._asked_masking(), *self._hidden.maskings()])

    def _lose(self, kind: type[Event], count: int = 1) -> None:
        with self._losing:
            self._lost[rank_of(kind)] += count

    # The background thread.

    def _prepare(self) -> None:
        """Load what is heavy and begin to send, in the thread's first moments (again in a forked child)."""
        if self._is_through_provider:
            with forks.not_while_importing():
                self._export = _to_global_provider(self._masking)
        elif self._outbox is not None:
            with forks.not_while_importing():
                without_tracing()
                self._export = _Encoder(self.instance, self._group, self._masking)
            if self._send is not None:
                self._send.start(self._outbox, read_answer, without_tracing)

    def _deliver(self, items: list[tuple[Any, ...]]) -> None:
        records = [self._record(_Taken(*item)) for item in items]
        if self._export is not None:
            self._hand_on(records, self._export)
        for read in self._readers:
            for record in records:
                try:
                    read(record)
                except Exception as error:  # a reader of the caller's is not our business
                    self._notices.once("reader", "recovery-ops: a reader of events raised %r", error)

    def _hand_on(self, records: list[Record], export: Callable[[Sequence[Record]], list[Entry]]) -> None:
        try:
            entries = export(records)
        except Exception as error:  # found out which one it is, below
            entries = []
            for record in records:
                try:
                    entries += export([record])
                except Exception:  # counted and told
                    self._lose(type(record.event))
                    self._notices.once("encode", "recovery-ops: an event could not be encoded: %r", error)
        if self._outbox is None or self._is_through_provider:
            return
        with self._losing:
            lost, self._lost = self._lost, Counter()
        self._outbox.add(entries, last_sequence=self._sequence, lost=lost)
        if self._send is not None:
            self._send.notify(is_urgent=any(entry.rank is Rank.ALWAYS for entry in entries))

    def _record(self, taken: _Taken) -> Record:
        self._sequence += 1
        span = taken.span
        has_span = span is not None and span.is_valid
        return Record(
            event=taken.event,
            uid=uuid7(taken.at_ns),
            sequence_number=self._sequence,
            at_ns=taken.at_ns,
            source=taken.source,
            is_foreground=taken.is_foreground,
            run=taken.run,
            policy_version=taken.policy_version,
            trace_id=f"{span.trace_id:032x}" if span is not None and has_span else "",
            span_id=f"{span.span_id:016x}" if span is not None and has_span else "",
        )


def _flush_at_exit(ref: weakref.ref[Telemetry]) -> None:
    """Bring events out before the interpreter ends. Not a close: who made the telemetry may still have a last word."""
    telemetry = ref()
    if telemetry is not None:
        telemetry._exit_by = telemetry._clock.now() + EXIT_S
        telemetry.flush(EXIT_S)


def _before_threads_end(intake: EventQueue[Any]) -> None:
    """Have the interpreter wait for the loading of OpenTelemetry, should it end within the first moments.

    The SDK starts a thread pool while it is imported, which is refused once the main thread has ended: the events of a
    short program would be lost. `atexit` runs too late to prevent that. What runs in time is not public; should it be
    gone one day, only that is lost again.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        with contextlib.suppress(RuntimeError):  # the main thread has ended already
            register(functools.partial(_wait_prepared, weakref.ref(intake)))


def _wait_prepared(ref: weakref.ref[EventQueue[Any]]) -> None:
    intake = ref()
    if intake is not None:
        intake.wait_prepared(EXIT_S)


# From here on OpenTelemetry: loaded by the background thread, never by an import of this module.


class _Encoder:
    """Turns records into encoded OTLP log records, by way of the SDK's own logger and OTLP's own encoder."""

    def __init__(self, instance: Instance, group: str, masking: Callable[[], Masking]) -> None:
        # Everything is loaded here, where no fork can come in between, and nothing later.
        from opentelemetry._logs import NoOpLogger
        from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

        from recovery_ops.wire import names

        self._masking = masking
        self._encode = _masker()
        self._encode_logs = encode_logs
        self._collected: list[ReadableLogRecord] = []
        provider = _collecting_provider(_resource(instance, group), self._collected)
        self._logger = provider.get_logger(names.SCOPE_NAME, __version__)
        if isinstance(self._logger, NoOpLogger):
            logging.getLogger(__name__).warning("recovery-ops: OTEL_SDK_DISABLED is set: no events leave this process")

    def __call__(self, records: Sequence[Record]) -> list[Entry]:
        self._collected.clear()
        for record in records:
            _emit(self._logger, self._encode(record, self._masking()))
        if not self._collected:
            return []
        request = self._encode_logs(self._collected)
        of_resource = request.resource_logs[0]
        of_scope = of_resource.scope_logs[0]
        envelope = Envelope(of_resource.resource.SerializeToString(), of_scope.scope.SerializeToString())
        return [
            Entry(record.uid, rank_of(type(record.event)), encoded.SerializeToString(), record.at_ns, envelope)
            for record, encoded in zip(records, of_scope.log_records, strict=True)
        ]


def _masker() -> Callable[[Record, Masking], WireEvent]:
    """What turns a record into what leaves the process: without what its environment hides."""
    from recovery_ops.wire import encode
    from recovery_ops.wire.masking import masked_event

    return lambda record, masking: masked_event(encode(record), masking)


def _collecting_provider(resource: Resource, collected: list[ReadableLogRecord]) -> LoggerProvider:
    from opentelemetry.sdk._logs import (
        LoggerProvider,
        LogRecordLimits,
        LogRecordProcessor,
        ReadableLogRecord,
        ReadWriteLogRecord,
    )

    class Collect(LogRecordProcessor):
        """Keeps what the logger made until the batch is encoded."""

        def on_emit(self, log_record: ReadWriteLogRecord) -> None:
            collected.append(
                ReadableLogRecord(
                    log_record.log_record, log_record.resource or resource, log_record.instrumentation_scope
                )
            )

        def shutdown(self) -> None:
            """Nothing is open."""

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            """Nothing is kept."""
            return True

    # The application's OTEL_*_LIMIT variables are about its own logs: they must not cut our uids.
    limits = LogRecordLimits(
        max_log_record_attributes=_ATTRIBUTES, max_log_record_attribute_length=LogRecordLimits.UNSET
    )
    provider = LoggerProvider(resource, shutdown_on_exit=False, log_record_limits=limits)
    provider.add_log_record_processor(Collect())
    return provider


def _resource(instance: Instance, group: str) -> Resource:
    # Not Resource.create: it starts threads to detect things, which an interpreter that is ending refuses.
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.version import __version__ as sdk_version

    from recovery_ops.wire import names

    said = {
        names.SERVICE_NAME: instance.service,
        names.SERVICE_INSTANCE_ID: instance.instance,
        names.SERVICE_VERSION: instance.version,
        names.ENVIRONMENT_NAME: instance.environment,
        names.GROUP: group,
    }
    sdk = {
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": sdk_version,
    }
    ours = Resource({name: _sendable(value) for name, value in said.items() if value})
    return Resource(sdk).merge(OTELResourceDetector().detect()).merge(ours)


def _to_global_provider(masking: Callable[[], Masking]) -> Callable[[Sequence[Record]], list[Entry]]:
    from opentelemetry._logs import get_logger

    from recovery_ops.wire import names

    logger, encoded = get_logger(names.SCOPE_NAME, __version__), _masker()

    def hand_over(records: Sequence[Record]) -> list[Entry]:
        for record in records:
            _emit(logger, encoded(record, masking()))
        return []

    return hand_over


def _flush_global_provider(timeout_s: float) -> bool:
    from opentelemetry._logs import get_logger_provider

    force_flush = getattr(get_logger_provider(), "force_flush", None)
    return force_flush is None or bool(force_flush(int(timeout_s * 1000)))


def _emit(logger: Logger, event: WireEvent) -> None:
    from opentelemetry._logs import SeverityNumber

    logger.emit(
        event_name=event.event_name,
        timestamp=event.at_ns,
        severity_number=SeverityNumber(event.severity),
        attributes={name: _sendable(value) for name, value in event.attributes.items()},
        body=_sendable(event.body),
        context=_context_of(event),
    )


def _context_of(event: WireEvent) -> Context | None:
    """The span that was current on the caller's thread."""
    if not event.trace_id:
        return None
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

    span = SpanContext(int(event.trace_id, 16), int(event.span_id, 16), is_remote=False)
    return set_span_in_context(NonRecordingSpan(span), Context())


def _sendable(value: Any) -> Any:
    """The value as protobuf can hold it: no lone surrogates, no integers beyond 64 bits."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int):
        return value if value in _INT64 else str(value)
    if isinstance(value, list):
        return [_sendable(part) for part in value]
    if isinstance(value, dict):
        return {_sendable(name): _sendable(part) for name, part in value.items()}
    return value


def read_answer(body: bytes) -> tuple[int, str]:
    """How many records the server rejected, and why; ValueError if the body is no ExportLogsServiceResponse."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    try:
        partial = ExportLogsServiceResponse.FromString(body).partial_success
    except Exception as error:  # protobuf's DecodeError, whose module has no types
        raise ValueError(f"not an export response: {error}") from error
    return partial.rejected_log_records, partial.error_message


def without_tracing() -> None:
    """In the calling thread instrumented libraries make no spans: our own sending is not the application's work."""
    from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value

    attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
