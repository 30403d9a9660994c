"""What the spans of one request say about recovery: failures, models that stood in, and how many calls there were.

An error climbs: the request to a model's vendor fails, so the call of the model fails, so the agent's turn fails, and
each has a span with an error. The innermost is the failure; a span whose last child failed only passes it on. The
failure is told under the name of the call of a model or a tool that it happened in, where there is one.

Only what is in one request is looked at here, so that a request that is sent again says the same again. What of it is a
failure when other spans of the trace came in other requests is decided by `marks` where facts are stored: with each
error goes what has to be remembered of its span, and what only passes an error on within the request is held ready.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from events.derived.evidence import is_failed_answer, read_of
from events.derived.facts import (
    Keys,
    exception_of,
    failure_fact,
    failure_of,
    key_of,
    model_fallback,
    record_of,
    retry_fact,
)
from events.derived.marks import CALL, Error, Links, Mark, Marks, Place, Says, told
from events.derived.naming import (
    NAME_CHARS,
    Identity,
    identity_of,
    is_operation,
    kind_of,
    models_of,
    provider_of,
    run_of,
)
from events.derived.readings import EXCEPTION_TYPES, Attributes, start_of, text_of, whole_of
from events.derived.same_model import is_other_model
from events.ingest.cleaning import PLAIN, Cleaner
from events.otlp.sent import Batch, Sent, SentSpan, SpanBatch, SpanEvent
from recovery_ops.rules.events import CallsCounted, FailureClassified
from recovery_ops.rules.policy.classification_rules import ClassificationRule
from recovery_ops.wire import names
from recovery_ops.wire import otel_names as foreign

Rules = Callable[[], Sequence[ClassificationRule]]
CLIENT, OK, ERROR = 3, 1, 2
"""A span's kind and the two statuses that say something."""
_SAID = (
    names.OPERATION,
    *(names.attribute_of(FailureClassified, name) for name in ("provider", "model", "tool")),
    names.RUN,
)
"""The attributes that `Says` holds."""
_HIGHEST = 32
"""How many parents up the call of a model or a tool is looked for."""
_MOST_NS = 2**63 - 1


@dataclass(slots=True)
class Derived:
    """What came of a request's spans: records like any other, and how many spans say nothing about recovery.

    `held` are failures that only pass on what another span of the request tells.
    """

    batches: list[Batch] = field(default_factory=list)
    held: list[Batch] = field(default_factory=list)
    marks: Marks = field(default_factory=dict)
    links: Links = field(default_factory=dict)
    """Of spans in whose traces this request tells nothing: needed where something is known of them already."""
    spans: int = 0
    silent: int = 0


@dataclass(slots=True, eq=False)
class _Node:
    """A span in its trace."""

    span: SentSpan
    scope: str
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)

    @property
    def is_failed(self) -> bool:
        span = self.span
        if span.status in (OK, ERROR):
            return span.status == ERROR
        status = whole_of(span.attributes, foreign.HTTP_STATUS) or 0
        return (
            foreign.ERROR_TYPE in span.attributes
            or (span.kind == CLIENT and status >= 400)
            or is_failed_answer(span.attributes)
        )

    @property
    def exceptions(self) -> list[SpanEvent]:
        return [event for event in self.span.events if event.name in foreign.EXCEPTION_EVENTS]

    @property
    def where(self) -> str:
        """What tells this span from all others."""
        span = self.span
        if span.trace_id and span.span_id:
            return f"{span.trace_id}{span.span_id}"
        return hashlib.sha256(repr((span.name, span.start_ns, span.end_ns)).encode(errors="replace")).hexdigest()

    @property
    def place(self) -> Place:
        """Where its mark stands, also for a span without ids."""
        span = self.span
        return Place(span.trace_id, span.span_id) if span.trace_id and span.span_id else Place("", self.where)


def derive_from_spans(batches: Sequence[SpanBatch], rules: Rules = tuple, cleaner: Cleaner = PLAIN) -> Derived:
    """The facts that the spans of a request tell; what could not be read of it goes along.

    `rules` are those of the policy, asked for when something failed.
    """
    derived, keys = Derived(), Keys()
    if cleaner.masking:  # what is hidden of a span is hidden of the facts that it tells
        batches = [replace(batch, spans=[_shown(span, cleaner) for span in batch.spans]) for batch in batches]
    trees = _trees(batches)
    errors = [[list(_failures(node, keys, rules, cleaner)) for node in nodes] for nodes in trees]
    for nodes, theirs in zip(trees, errors, strict=True):
        for node, mine in zip(nodes, theirs, strict=True):
            _mark(node, mine, derived.marks, cleaner)
    _link(trees, derived)
    for place in {node.place for nodes in trees for node in nodes} & derived.marks.keys():
        mark = derived.marks[place]
        mark.went_well = not mark.ended_ns  # a client's span and a server's may have one id: neither failed
    failures = told(derived.marks)
    for batch, nodes, theirs in zip(batches, trees, errors, strict=True):
        found, held = (
            Batch(batch.resource, batch.scope, unreadable=batch.unreadable),
            Batch(batch.resource, batch.scope),
        )
        calls = {id(node): _Call(node) for node in nodes if _is_counted(node)}
        for node, mine in zip(nodes, theirs, strict=True):
            failed = [one for one in mine if one.error.uid in failures]
            for one in failed:
                if (call := calls.get(id(one.caller))) is not None:
                    call.failures[one.category] += 1
            said = [*_ours(node), *(one.sent for one in failed), *_stand_in(node), *_retries(node)]
            derived.silent += not said and not is_operation(node.span.attributes)
            found.records += said
            held.records += [one.sent for one in mine if one.error.uid not in failures]
        found.records += [call.record() for call in calls.values()]
        derived.spans += len(nodes)
        derived.batches.append(found)
        if held.records:
            derived.held.append(held)
    derived.marks = {place: mark for place, mark in derived.marks.items() if place.trace_id}
    return derived


def _shown(span: SentSpan, cleaner: Cleaner) -> SentSpan:
    events = tuple(event._replace(attributes=_seen(event.attributes, cleaner)) for event in span.events)
    return span._replace(attributes=_seen(span.attributes, cleaner), events=events)


def _seen(given: Mapping[str, object], cleaner: Cleaner) -> dict[str, object]:
    seen = cleaner.map(given, len(given))
    if names.UID in given:
        seen[names.UID] = given[names.UID]  # never stored as it is, so never hidden: two would become one fact
    return seen


def _mark(node: _Node, errors: Sequence[_Failed], marks: Marks, cleaner: Cleaner) -> None:
    """Remember of a span what tells whose error it is; of one that went well, only that its parent had one such."""
    span, place = node.span, node.place
    says = _says(node, cleaner)
    if node.is_failed or errors or says is not None:
        last_words = text_of(_last_words(node), EXCEPTION_TYPES)
        mark = Mark(
            span.parent_id, max(1, min(span.end_ns, _MOST_NS)), node.is_failed, cleaner.text(last_words, NAME_CHARS)
        )
        mark.errors = {one.error.uid: one.error for one in errors}
        mark.says = says
        marks.setdefault(place, Mark()).join(mark)
    if not node.is_failed and span.parent_id and place.trace_id and span.parent_id != span.span_id:
        marks.setdefault(Place(span.trace_id, span.parent_id), Mark()).join(Mark(whole_ns=min(span.end_ns, _MOST_NS)))


def _link(trees: Sequence[Sequence[_Node]], derived: Derived) -> None:
    """Remember whose child each span is, where something of its trace is remembered: others may come later."""
    marks = derived.marks
    wanted = {place.trace_id for place, mark in marks.items() if mark.is_trouble or mark.says is not None}
    for nodes in trees:
        for node in nodes:
            span, place = node.span, node.place
            ended_ns = max(1, min(span.end_ns, _MOST_NS))
            if place.trace_id not in wanted:
                if place.trace_id and span.parent_id:
                    derived.links[place] = (span.parent_id, ended_ns)
            else:
                marks.setdefault(place, Mark()).link(span.parent_id, ended_ns)


def _says(node: _Node, cleaner: Cleaner) -> Says | None:
    """What a span says for what is below it, cleaned like the attributes of events; None where that is nothing."""
    given = node.span.attributes
    run = run_of(given)
    is_call = is_operation(given)
    if not is_call and not run:
        return None
    identity = _identity(node) if is_call else Identity("", "", "", "")
    said = cleaner.map(dict(zip(_SAID, (*identity[:4], run), strict=True)), len(_SAID))
    return Says(*(str(said.get(name, "")) for name in _SAID))


def _teller(node: _Node) -> str:
    """See `Error.teller`."""
    is_call = node.span.kind == CLIENT or is_operation(node.span.attributes)
    said = node.scope if is_call else f"{node.scope}/{node.span.name}"
    return (CALL if is_call else "s") + hashlib.sha256(said.encode(errors="replace")).hexdigest()[:8]


def _trees(batches: Sequence[SpanBatch]) -> list[list[_Node]]:
    """The spans of each batch, joined to their parents wherever these are in the request."""
    seen: dict[tuple[str, str], SentSpan] = {}
    trees = [[_Node(span, batch.scope) for span in batch.spans if _is_new(span, seen)] for batch in batches]
    known = {(node.span.trace_id, node.span.span_id): node for nodes in trees for node in nodes if node.span.span_id}
    for nodes in trees:
        for node in nodes:
            parent = known.get((node.span.trace_id, node.span.parent_id)) if node.span.parent_id else None
            if parent is not None and parent is not node:
                node.parent = parent
                parent.children.append(node)
    return trees


def _is_new(span: SentSpan, seen: dict[tuple[str, str], SentSpan]) -> bool:
    """Not if the request holds the same span before: a Collector that was sent a batch twice may join the two."""
    if not span.span_id:
        return True
    first = seen.setdefault((span.trace_id, span.span_id), span)
    return first is span or first != span


def _last_words(node: _Node) -> Attributes:
    """Everything that is said of the error of a span."""
    exceptions = node.exceptions
    return node.span.attributes | exceptions[-1].attributes if exceptions else node.span.attributes


def _caller(node: _Node) -> _Node | None:
    """The call of a model or a tool that this span is, or happened in."""
    at: _Node | None = node
    for _ in range(_HIGHEST):
        if at is None or is_operation(at.span.attributes):
            return at
        at = at.parent
    return None


def _whole_identity(node: _Node) -> Identity:
    """The identity of a call; what it does not say of its provider and model, the nearest call around it says."""
    identity = _identity(node)
    if identity.tool or not is_operation(node.span.attributes):
        return identity
    for above in _upwards(node):
        if identity.provider and identity.model:
            break
        if is_operation(above.span.attributes):
            known = _identity(above)
            identity = identity._replace(
                provider=identity.provider or known.provider, model=identity.model or known.model
            )
    return identity


def _upwards(node: _Node) -> Iterator[_Node]:
    """The spans around this one, the nearest first."""
    at = node.parent
    for _ in range(_HIGHEST):
        if at is None:
            return
        yield at
        at = at.parent


def _context(node: _Node, given: Attributes) -> Attributes:
    """What is said around an error, with the run that the nearest span names."""
    if run_of(given):
        return given
    run = next((run for one in (node, *_upwards(node)) if (run := run_of(one.span.attributes))), "")
    return ChainMap({foreign.CONVERSATION[0]: run}, given) if run else given  # type: ignore[arg-type]  # it is only read


def _ours(node: _Node) -> Iterator[Sent]:
    """Events of ours that were put on a span instead of into a log."""
    span = node.span
    for index, event in enumerate(span.events):
        if event.name.startswith(names.PREFIX) and names.event_name_of(event.name) is not None:
            uid = event.attributes.get(names.UID) or key_of("event", node.where, str(index), at_ns=event.time_ns)
            given = event.attributes | {names.UID: uid}
            yield Sent(event.name, event.time_ns, 0, names.INFO, "", given, span.trace_id, span.span_id)


@dataclass(frozen=True, slots=True)
class _Failed:
    """One error of a span as the failure that it may be."""

    error: Error
    sent: Sent
    category: str
    caller: _Node | None


def _failures(node: _Node, keys: Keys, rules: Rules, cleaner: Cleaner) -> Iterator[_Failed]:
    span = node.span
    caller = _caller(node)
    identity = _whole_identity(caller or node)
    if region := start_of(node.span.attributes, foreign.REGION):
        identity = identity._replace(region=region)  # what failed knows best where it stands
    for event, given, message, at_ns in _errors(node):
        failure = failure_of(given, message, at_ns, identity, rules())
        if failure is None:
            continue
        duration_s = round(max(0, span.end_ns - span.start_ns) / 1e9, 4) if event is None else None
        # Not merged: a caller may have very many attributes, and as many failures below it.
        context = _context(node, given if caller is None else ChainMap(given, caller.span.attributes))
        uid = keys.of_failure(node.where, failure.error_type, at_ns)
        sent = record_of(
            failure_fact(failure, identity, given, duration_s=duration_s),
            uid=uid,
            at_ns=at_ns,
            origin="span" if event is None else "span_event",
            given=context,
            trace_id=span.trace_id,
            span_id=span.span_id,
        )
        error_type = "" if event is None else cleaner.text(text_of(event.attributes, EXCEPTION_TYPES), NAME_CHARS)
        told_as = exception_of(sent.attributes)
        error = Error(uuid.UUID(uid).bytes, error_type, event is None, told_as, _teller(node), at_ns)
        yield _Failed(error, sent, failure.category.value, caller)


_Error = tuple[SpanEvent | None, dict[str, object], str, int]


def _errors(node: _Node) -> Iterator[_Error]:
    """The errors of one span: exceptions it dealt with, and at last its own."""
    span, own = node.span, node.span.attributes
    handled = node.exceptions
    is_failed = node.is_failed
    last = handled.pop() if is_failed and handled else None
    around = _without_error(own) if handled else {}
    for event in handled:
        yield event, around | event.attributes, "", event.time_ns or span.end_ns
    if is_failed:
        given = own if last is None else own | last.attributes
        yield None, given, span.status_message, (last.time_ns if last is not None else 0) or span.end_ns


def _without_error(own: Attributes) -> dict[str, object]:
    """What is read of a span's attributes, without what is said of how it ended."""
    ended = {foreign.ERROR_TYPE, *foreign.HTTP_STATUS, *foreign.RPC_STATUS, *foreign.DB_STATUS}
    return {name: value for name, value in read_of(own).items() if name not in ended}


def _stand_in(node: _Node) -> Iterator[Sent]:
    """Another model answered than was asked."""
    span, given = node.span, node.span.attributes
    asked, answered = models_of(given)
    if not node.is_failed and is_other_model(asked, answered, provider_of(given)):
        yield record_of(
            model_fallback(asked, answered, _whole_identity(node)),
            uid=key_of("model", node.where, at_ns=span.end_ns),
            at_ns=span.end_ns,
            origin="span",
            given=_context(node, given),
            trace_id=span.trace_id,
            span_id=span.span_id,
        )


def _retries(node: _Node) -> Iterator[Sent]:
    """Retries that instrumentation noted on a span."""
    span = node.span
    for index, event in enumerate(span.events):
        if event.name in foreign.RETRY_EVENTS:
            at_ns = event.time_ns or span.end_ns
            fact = retry_fact(_identity(_caller(node) or node), event.attributes, at_ns)
            yield record_of(
                fact,
                uid=key_of("retry", node.where, str(index), at_ns=at_ns),
                at_ns=at_ns,
                origin="span_event",
                given=_context(node, span.attributes),
                trace_id=span.trace_id,
                span_id=span.span_id,
            )


# -- how many calls there were -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """One call of a model or a tool."""

    node: _Node
    failures: Counter[str] = field(default_factory=Counter)

    def record(self) -> Sent:
        """The event that counts it, whatever it arrives with: its key is made of the span."""
        span, identity = self.node.span, _counted_as(self.node)
        successes = int(not self.node.is_failed)
        fact = CallsCounted(
            operation=identity.operation,
            interval_s=round(max(0, span.end_ns - span.start_ns) / 1e9, 3),
            calls=1,
            attempts=successes + sum(self.failures.values()),
            successes=successes,
            failures=dict(self.failures),
            input_tokens=max(0, whole_of(span.attributes, foreign.INPUT_TOKENS) or 0) or None,
            output_tokens=max(0, whole_of(span.attributes, foreign.OUTPUT_TOKENS) or 0) or None,
            provider=identity.provider or None,
            model=identity.model or None,
        )
        at_ns = max(1, min(span.end_ns, _MOST_NS))
        kind = kind_of(span.attributes)
        return record_of(
            fact,
            uid=key_of("calls", self.node.where, at_ns=at_ns),
            at_ns=span.end_ns,
            origin="span",
            given={foreign.KIND_OF_WORK[0]: kind} if kind else {},
        )


def _is_counted(node: _Node) -> bool:
    """Whether it is a call. Of a framework's span around a vendor's, both for one call, the inner one is."""
    given = node.span.attributes
    return is_operation(given) and _counted_as(node).operation not in _operations_within(node)


def _identity(node: _Node) -> Identity:
    return identity_of(node.span.attributes, node.span.name)


def _counted_as(node: _Node) -> Identity:
    """Calls are counted without their region, which a framework's span does not know and the vendor's may."""
    return _whole_identity(node)._replace(region="")


def _operations_within(node: _Node) -> set[str]:
    """The operations of the nearest calls within this one."""
    found, waiting = set(), [*node.children]
    while waiting:
        one = waiting.pop()
        if is_operation(one.span.attributes):
            found.add(_identity(one).operation)
        else:
            waiting += one.children
    return found
