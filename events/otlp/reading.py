"""A request's body to rows: the one path for what arrives and for what is replayed."""

from __future__ import annotations

from events.derived import Rules, derive_from_spans
from events.ingest.classification import rules_of
from events.ingest.cleaning import Cleaner
from events.ingest.masking import cleaner_of
from events.ingest.records import Intake, read_records
from events.ingest.reporters import reporters
from events.otlp import encodings
from events.otlp.part_limits import check_parts
from events.otlp.remarks import WRONG_ID_TEXT, Remark
from events.otlp.sent import Encoding, Signal
from events.otlp.spans import read_spans, with_mended_ids


def read_request(
    signal: Signal, encoding: Encoding, body: bytes, *, environment: str, received_us: int, key_prefix: str = ""
) -> Intake:
    """What a body says: rows to be stored, what has to be set aside, and how much is ignored. Raises Malformed."""
    cleaner = cleaner_of(environment)
    if signal is not Signal.LOGS and encoding is Encoding.PROTOBUF:
        check_parts(body, signal)
    if signal is Signal.METRICS:
        intake = Intake(environment, received_us, key_prefix, ignored=encodings.count_data_points(body, encoding))
    elif signal is Signal.TRACES:
        spans, wrong_ids = with_mended_ids(read_spans(body, encoding))
        derived = derive_from_spans(spans, rules_of(environment), cleaner)
        intake = read_records(derived.batches, environment, received_us, key_prefix, cleaner=cleaner)
        if wrong_ids:
            intake.remarks[Remark.WRONG_ID.value, WRONG_ID_TEXT] += wrong_ids
        intake.ignored += derived.silent
        intake.held = read_records(derived.held, environment, received_us, cleaner=cleaner).rows
        intake.marks, intake.links = derived.marks, derived.links
    else:
        rules = rules_of(environment)
        intake = read_log_records(
            encoding,
            body,
            environment=environment,
            received_us=received_us,
            key_prefix=key_prefix,
            rules=rules,
            cleaner=cleaner,
        )
    if signal is Signal.TRACES or intake.derived:
        reporters.leave_out(intake)
    intake.signal, intake.encoding, intake.cleaner = signal, encoding, cleaner
    return intake


def read_log_records(
    encoding: Encoding,
    body: bytes,
    *,
    environment: str,
    received_us: int,
    key_prefix: str,
    rules: Rules,
    cleaner: Cleaner,
) -> Intake:
    """What log records say, asking nobody but `rules`, and that only for exceptions. Raises Malformed."""
    if encoding is Encoding.PROTOBUF:
        check_parts(body, Signal.LOGS)
    logs = encodings.read_logs(body, encoding, cleaner)
    return read_records(logs, environment, received_us, key_prefix, rules, cleaner)
