"""Takes errors apart: what an exception or a response is, for the rules to classify.

Recognises libraries by the names of their types alone and imports none of them. Never raises, never causes I/O (a body
counts only where it was read already), and does a bounded amount of work whatever it is given.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import Enum
from math import inf
from types import MappingProxyType

from recovery_ops.rules.classification import classify as failures
from recovery_ops.rules.classification.classify import Failure, Signal
from recovery_ops.rules.classification.codes import category_of_kind, normal_code
from recovery_ops.rules.classification.error_bodies import codes_in, error_part, innermost, message_in, status_in
from recovery_ops.rules.classification.retry_after import LONGEST_WAIT_S, RESET_PREFIXES
from recovery_ops.rules.enums import FAMILY_OF, Category, Family
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.classification_rules import ClassificationRule
from recovery_ops.runtime.failures.inner_retries import MOST, inner_retries
from recovery_ops.runtime.failures.known_keys import without_keys
from recovery_ops.runtime.failures.safe_inspection import (
    LONGEST_TEXT,
    attributes,
    decoded,
    get,
    names_of,
    pairs,
    parsed,
    plain,
    said,
    text,
)

_LONGEST_CHAIN = 8
_MOST_CODES = 8
_MOST_IN_A_GROUP = 64
_GRAVEST = (Category.PERMISSION, Category.POLICY_DENIED, Category.IDEMPOTENCY_CONFLICT)
"""Of several errors at once, these are heard first: no other way around, no repetition."""


@dataclass(frozen=True, slots=True)
class Response:
    """An error response, for clients that do not raise. `body` is raw or parsed; header names are case-insensitive.

    Rules: docs/guide/failures.md#categories

    >>> classify(Response(402, body={"error": {"code": "insufficient_quota"}})).category
    <Category.QUOTA_EXHAUSTED: 'quota_exhausted'>
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | str | Mapping[str, object] | None = None


def classify(error: object, *, now: float | datetime | None = None, is_model_output: bool = False) -> Failure:
    """Classify an exception, a `Response` or the response object of a client. Never raises, imports no vendor library.

    `now` is the wall clock, in seconds since the epoch or as a datetime; only dates in headers need it.
    `is_model_output`: a model wrote the text, so a parse error is `model_output` and not `schema_mismatch`. Rules:
    docs/guide/failures.md#categories

    >>> failure = classify(ConnectionRefusedError("refused"))
    >>> failure.category, failure.nothing_was_done, failure.user_message
    (<Category.NETWORK: 'network'>, True, 'The connection to a service was lost.')
    """
    return classify_with((), error, now=now, is_model_output=is_model_output)


def classify_with(
    rules: Sequence[ClassificationRule],
    error: object,
    *,
    now: float | datetime | None = None,
    is_model_output: bool = False,
    operation: str = "",
    provider: str = "",
) -> Failure:
    """As `classify`, and by the rules of a policy, asked of an error of this operation and provider. Never raises."""
    signal = signal_of(error, is_model_output=is_model_output)
    at = time.time() if now is None else now
    try:
        return failures.classify(signal, now=at, rules=rules, operation=operation, provider=provider)
    except Exception:
        # A parsed body may hold values of any class; the rules expect what JSON can hold.
        bare = replace(signal, body=None)
        at = 0.0 if now is None else now
        return failures.classify(bare, now=at, rules=rules, operation=operation, provider=provider)


def signal_of(error: object, *, is_model_output: bool = False) -> Signal:
    """The error taken apart. Never raises; what cannot be read is left out."""
    draft = _Draft()
    types: list[tuple[str, ...]] = []
    try:
        if isinstance(error, BaseException):
            for link in _chain(error):
                names = names_of(type(link))
                types.append(names)
                draft.add_exception(link, names)
                if draft.kind is not None:
                    break  # An adapter that names a kind has translated what lies below it.
        else:
            draft.add_answer(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        draft.break_off()
    return draft.signal(tuple(types), is_model_output)


# These libraries hand the cause over as an argument or as `reason`, and not always as `__cause__`.
_CARRIES_ITS_CAUSE = ("requests.", "urllib3.", "urllib.")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The explicit causes, outermost first: never `__context__`, which may be an error that was dealt with."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < _LONGEST_CHAIN:
        seen.add(id(link))
        yield link
        link = _cause(link)


def _cause(error: BaseException) -> BaseException | None:
    cause = get(error, "__cause__")
    if isinstance(cause, BaseException):
        return cause
    if isinstance(error, BaseExceptionGroup):
        return min(_leaves(error), key=_gravity, default=None)
    if f"{get(type(error), '__module__')}.".startswith(_CARRIES_ITS_CAUSE):
        for carried in (get(error, "reason"), *error.args[:4]):
            if isinstance(carried, BaseException):
                return carried
    return None


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors of a group and of the groups in it, in their order, as far as it is bounded."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    for _ in range(_MOST_IN_A_GROUP):
        if not waiting:
            break
        link = waiting.pop(0)
        if isinstance(link, BaseExceptionGroup):
            waiting[:0] = link.exceptions[:_MOST_IN_A_GROUP]
        else:
            found.append(link)
    return found


def _gravity(error: BaseException) -> int:
    """How grave one error of a group is; the gravest speaks for all, whatever their order.

    A refusal among other errors is still a refusal, and what is not to be repeated is not repeated because something
    beside it could be. A task group cancels the siblings of the one that failed, so a cancel says least.
    """
    names, draft = names_of(type(error)), _Draft()
    draft.add_exception(error, names)
    category = failures.classify(draft.signal((names,), False), now=0.0).category
    if category in _GRAVEST:
        return _GRAVEST.index(category)
    if category is Category.CANCELLED:
        return len(_GRAVEST) + 2
    return len(_GRAVEST) + (FAMILY_OF[category] is Family.TRANSIENT)


_READ_HEADERS = frozenset({"retry-after", "retry-after-ms", "x-should-retry", "stripe-should-retry"})
_ID_HEADERS = (
    *("x-request-id", "request-id", "x-amzn-requestid", "x-amz-request-id", "x-ms-request-id"),
    "x-oai-request-id",
)


class _Draft:
    """What was found so far; the outermost word wins, for each field on its own."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self._status: int | None = None
        self._was_answered = False
        self._headers: dict[str, str] = {}
        self._codes: list[str] = []
        self._body: dict[str, object] | None = None
        self._message = ""
        self._text = ""
        self._answer = ""
        self._errno: int | None = None
        self._exit: int | None = None
        self._id: str | None = None
        self._retry_at: float | None = None
        self._was_begun = False
        self._retry_after: str | None = None
        self._inner_retries = 0

    def signal(self, types: tuple[tuple[str, ...], ...], is_model_output: bool) -> Signal:
        """All of it together."""
        headers = self._headers
        return Signal(
            types=types,
            code=self._codes[0] if self._codes else None,
            other_codes=tuple(self._codes[1:]),
            kind=self.kind,
            status_code=self._status,
            headers=MappingProxyType(headers),
            message=without_keys(self._message or self._answer or self._text)[:LONGEST_TEXT],
            body=self._body,
            errno=self._errno,
            exit_code=self._exit,
            request_id=self._id or next((headers[name] for name in _ID_HEADERS if name in headers), None),
            retry_at=self._retry_at,
            retry_after=self._retry_after,
            is_model_output=is_model_output,
            was_begun=self._was_begun,
            was_answered=self._was_answered,
            inner_retries=self._inner_retries,
        )

    def break_off(self) -> None:
        """A mapping or a header object raised: what was read before it is kept."""
        self._text = self._text or "(an error that cannot be read)"

    def add_exception(self, error: BaseException, names: tuple[str, ...]) -> None:
        """Everything that one exception of the chain carries."""
        found = attributes(error)
        if not self._text:
            self._text = said(error, found)
        if self._errno is None and isinstance(error, OSError) and type(error.errno) is int:
            self._errno = error.errno
        if not found:
            return
        self._inner_retries = min(MOST, self._inner_retries + inner_retries(found, names))
        self._add_kind(found)
        for name in ("body", "json_body", "details", "error", "response"):
            value = found.get(name)
            if value is not None and not callable(value):
                self._add_carrier(name, value)
        for name in ("status_code", "status", "code", "http_status"):
            self.add_status(found.get(name))
        self._add_codes(found, names)
        self.add_headers(found.get("headers"))
        self.add_headers(found.get("hdrs"))
        self._add_rest(found)

    def add_answer(self, answer: object) -> None:
        """A `Response`, a client's own response object, a body, or a bare message."""
        if isinstance(answer, Response):
            self.add_status(answer.status)
            self.add_headers(answer.headers)
            self._add_body(answer.body)
        elif isinstance(answer, (str, bytes)):
            self._add_body(answer)
        else:
            self._add_response(answer)

    def add_status(self, value: object) -> None:
        """An HTTP status; an error's beats one below 400 (a stream that fails later has 200)."""
        if isinstance(value, str):
            value = int(value) if len(value) == 3 and value.isascii() and value.isdigit() else None
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            status = int(value)
            self._was_answered = self._was_answered or 200 <= status < 300
            if self._status is None or self._status < 400 <= status:
                self._status = status

    def add_headers(self, headers: object) -> None:
        """Those of the headers that the rules read."""
        if headers is None:
            return
        for name, value in pairs(headers):
            if name in _READ_HEADERS or name in _ID_HEADERS or name.startswith(RESET_PREFIXES):
                self._headers.setdefault(name, value)

    def _add_response(self, response: object) -> None:
        if isinstance(response, Mapping):
            self._add_body(response)
            metadata = response.get("ResponseMetadata")  # botocore
            if isinstance(metadata, Mapping):
                self.add_status(metadata.get("HTTPStatusCode"))
                self.add_headers(metadata.get("HTTPHeaders"))
                self._add_id(metadata.get("RequestId"))
            return
        for name in ("status_code", "status", "code"):
            self.add_status(get(response, name))
        self.add_headers(get(response, "headers"))
        if self._body is None:
            for name in ("_content", "_body", "content", "body", "text", "data"):
                value = plain(response, name)
                if isinstance(value, (bytes, bytearray, str, Mapping)):
                    self._add_body(value)
                    break

    def _add_body(self, body: object) -> None:
        """A body in any form; the first that is JSON is kept."""
        outer = parsed(body)
        inner = innermost(outer)
        if inner is None:
            plain_text = decoded(body).strip()
            if plain_text and not plain_text.startswith("<"):
                self._answer = self._answer or plain_text
            self._text = self._text or plain_text
            return
        if self._body is None:
            self._body = inner
        part = error_part(inner) or inner
        self._add_kind(part)
        for code in codes_in(inner) if inner is outer else (*codes_in(inner), *codes_in(outer)):
            self._add_code(code)
        self._message = self._message or message_in(inner)
        self.add_status(status_in(inner))
        self._add_id(inner.get("request_id"))

    def _add_kind(self, found: Mapping[str, object]) -> None:
        """An adapter's `kind`; the runtime's own errors have a `category` instead."""
        category = found.get("category")
        kind = category if isinstance(category, Category) else found.get("kind")
        if isinstance(kind, Enum):
            kind = kind.value
        if self.kind is None and isinstance(kind, str):
            word = normal_code(kind)
            if category_of_kind(word) is not None:
                self.kind = word

    def _add_carrier(self, name: str, value: object) -> None:
        """These attributes hold different things in different libraries; the value tells."""
        if name == "response":
            self._add_response(value)
        elif isinstance(value, (Mapping, bytes)) or (isinstance(value, (str, list)) and name in ("body", "json_body")):
            self._add_body(value)
        elif name == "error":
            # MCP: an object with a JSON-RPC code, a message, and data in which a server may say what it means.
            data = get(value, "data")
            if isinstance(data, Mapping):
                self._add_body(data)
            self._add_kind({"kind": get(value, "kind")})
            number = get(value, "code")
            if isinstance(number, int):
                self.add_status(number)
                self._add_code(f"jsonrpc_{int(number)}")
                self._message = self._message or text(get(value, "message"))

    def _add_codes(self, found: Mapping[str, object], names: tuple[str, ...]) -> None:
        for name in ("error_code", "code", "error", "type", "status"):
            value = found.get(name)
            if isinstance(value, str) and not value.isdigit():
                self._add_code(normal_code(value))
        for name in ("sqlstate", "pgcode"):
            value = found.get(name)
            if isinstance(value, str) and len(value) == 5:
                self._add_code(f"sqlstate_{value.lower()}")
        self._add_code(text(found.get("sqlite_errorname")).lower())
        if "grpc_status_code" in found or "grpc.RpcError" in names:
            word = text(get(_grpc_status(found), "name")).lower()
            self._add_code("grpc_unknown" if word == "unknown" else word)

    def _add_code(self, code: str) -> None:
        if code and code not in self._codes and len(self._codes) < _MOST_CODES:
            self._codes.append(code[:100])

    def _add_rest(self, found: Mapping[str, object]) -> None:
        exit_code, moment = found.get("returncode"), found.get("retry_at")
        if self._exit is None and type(exit_code) is int:
            self._exit = exit_code
        if self._retry_at is None and isinstance(moment, datetime):
            self._retry_at = moment.timestamp()
        self._was_begun = self._was_begun or found.get("was_begun") is True
        if self._retry_after is None:
            self._retry_after = _seconds_text(found.get("retry_after"))
        self._add_id(found.get("request_id"))

    def _add_id(self, value: object) -> None:
        if self._id is None and isinstance(value, str):
            self._id = value[:129]


def _seconds_text(value: object) -> str | None:
    """An exception's `retry_after`, as a header would have it."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str):
        return value[:100]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < inf:
        return f"{min(value, LONGEST_WAIT_S):.6f}"
    return None


def _grpc_status(found: Mapping[str, object]) -> object:
    """The status of a gRPC error. `code()` is asked only where no state is at hand: on a live call it would wait."""
    known = found.get("grpc_status_code") or found.get("_code")
    if known is not None:
        return known
    if found.get("_state") is not None:
        return get(found["_state"], "code")
    ask = found.get("code")
    return ask() if callable(ask) else ask
