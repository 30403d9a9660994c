"""What the attributes of a span or an exception say about an error, in the words that the rules classify by.

What a text quotes (a status, a body) is read by the rules, for agents and for the server alike.
"""

from __future__ import annotations

import errno

from events.derived.naming import provider_of
from events.derived.readings import TEXT_CHARS, Attributes, text_of, whole_of
from recovery_ops.rules.classification.classify import Signal
from recovery_ops.rules.classification.codes import GRPC, category_of_kind, normal_code
from recovery_ops.rules.classification.error_bodies import codes_in, innermost, kind_in, message_in, status_in
from recovery_ops.rules.classification.exception_types import qualified_name_of
from recovery_ops.wire import otel_names as foreign

_MOST_HEADERS = 32
_FAILED_ANSWERS = frozenset({"error", "failed"})

_TIMEOUT, _REFUSED, _RESET = "TimeoutError", "ConnectionRefusedError", "ConnectionResetError"
_NAME_UNKNOWN, _UNREADABLE = "socket.gaierror", "json.JSONDecodeError"
_AS_IN_PYTHON = {
    # Java and Kotlin
    "java.net.SocketTimeoutException": _TIMEOUT,
    "java.net.http.HttpTimeoutException": _TIMEOUT,
    "java.net.http.HttpConnectTimeoutException": _TIMEOUT,
    "java.util.concurrent.TimeoutException": _TIMEOUT,
    "io.netty.handler.timeout.ReadTimeoutException": _TIMEOUT,
    "java.net.ConnectException": _REFUSED,
    "java.net.UnknownHostException": _NAME_UNKNOWN,
    "java.net.SocketException": _RESET,
    "java.io.EOFException": _RESET,
    "javax.net.ssl.SSLException": "ssl.SSLError",
    "javax.net.ssl.SSLHandshakeException": "ssl.SSLError",
    "com.fasterxml.jackson.core.JsonParseException": _UNREADABLE,
    "java.util.concurrent.CancellationException": "asyncio.exceptions.CancelledError",
    "java.lang.NullPointerException": "AttributeError",
    "java.lang.IllegalArgumentException": "ValueError",
    "java.lang.IllegalStateException": "AssertionError",
    "java.lang.OutOfMemoryError": "MemoryError",
    # .NET
    "System.TimeoutException": _TIMEOUT,
    "System.Net.Sockets.SocketException": "ConnectionError",
    "System.Net.Http.HttpRequestException": "ConnectionError",
    "System.IO.IOException": "ConnectionError",
    "System.Text.Json.JsonException": _UNREADABLE,
    "System.NullReferenceException": "AttributeError",
    "System.ArgumentException": "ValueError",
    "System.OperationCanceledException": "asyncio.exceptions.CancelledError",
    # Go
    "context.deadlineExceededError": _TIMEOUT,
    "*net.DNSError": _NAME_UNKNOWN,
    "*net.OpError": "ConnectionError",
    "*json.SyntaxError": _UNREADABLE,
    "*json.UnmarshalTypeError": _UNREADABLE,
    # JavaScript: names of classes, and codes of Node's
    "APIConnectionTimeoutError": _TIMEOUT,
    "ETIMEDOUT": _TIMEOUT,
    "ESOCKETTIMEDOUT": _TIMEOUT,
    "UND_ERR_CONNECT_TIMEOUT": _TIMEOUT,
    "UND_ERR_HEADERS_TIMEOUT": _TIMEOUT,
    "UND_ERR_BODY_TIMEOUT": _TIMEOUT,
    "UND_ERR_SOCKET": _RESET,
    "ENOTFOUND": _NAME_UNKNOWN,
    "EAI_AGAIN": _NAME_UNKNOWN,
    "ReferenceError": "NameError",
    "RangeError": "ValueError",
}
"""Exceptions of other languages → what the rules know them by."""
_VENDORS_SDK = {"openai": "openai", "anthropic": "anthropic", "azure.ai.openai": "openai"}


def signal_of(given: Attributes, message: str, answered: object = None) -> Signal:
    """The error that these attributes describe; `message` for where it is not among them, and the body that was
    `answered` where it is known, and not only in what an SDK wrote.
    """
    told = (text_of(given, (foreign.EXCEPTION_MESSAGE,)) or message or text_of(given, (foreign.ERROR_MESSAGE,)))[
        :TEXT_CHARS
    ]
    error_type = text_of(given, (foreign.ERROR_TYPE,))
    exception_type = text_of(given, (foreign.EXCEPTION_TYPE,)) or (error_type if _is_a_type(error_type) else "")
    body = innermost(answered)
    kind = kind_in(body)
    status = whole_of(given, foreign.HTTP_STATUS) or whole_of(given, (foreign.ERROR_TYPE,)) or status_in(body)
    codes = [*codes_in(body), *_codes(given, error_type)]
    return Signal(
        types=(_names(exception_type, provider_of(given)),) if exception_type else (),
        code=codes[0] if codes else None,
        other_codes=tuple(codes[1:]),
        kind=kind if category_of_kind(kind) else None,
        status_code=status if status and 100 <= status <= 599 else None,
        headers=_headers(given),
        message=(message_in(body) or told)[:TEXT_CHARS],
        body=body,
        errno=_errno(exception_type),
    )


def _is_a_type(error_type: str) -> bool:
    """`error.type` may be a status, a code, or the name of a class."""
    last = error_type.rpartition(".")[2].lstrip("*")
    return error_type in _AS_IN_PYTHON or (last[:1].isupper() and not last.isupper())


def _names(exception_type: str, provider: str) -> tuple[str, ...]:
    """The type and what else it may be known by: some SDKs leave the module away."""
    name = exception_type[:200]
    known = _AS_IN_PYTHON.get(name)
    if known is not None:
        return (name, known)
    if "." in name:
        return (name,)
    library = _VENDORS_SDK.get(provider)
    full = f"{library}.{name}" if library else qualified_name_of(name)
    return (name, full) if full else (name,)


def _errno(exception_type: str) -> int | None:
    """Node names errors by their number's word: ECONNRESET."""
    number = getattr(errno, exception_type, None) if exception_type[:1] == "E" and exception_type.isupper() else None
    return number if type(number) is int else None


def _codes(given: Attributes, error_type: str) -> list[str]:
    found = []
    if error_type and not error_type.isdecimal() and error_type != "_OTHER":
        found.append(normal_code(error_type))
    number = whole_of(given, foreign.RPC_STATUS)
    word = GRPC[number] if number is not None and 0 < number < len(GRPC) else ""
    word = word or normal_code(text_of(given, foreign.RPC_STATUS))
    state = text_of(given, foreign.DB_STATUS)
    if word:
        found.append("grpc_unknown" if word == "unknown" else word)
    if len(state) == 5:
        found.append(f"sqlstate_{state.lower()}")
    return found


def _headers(given: Attributes) -> dict[str, str]:
    """Headers of the answer, which instrumentation records as lists."""
    return {name: text for name, (_, text) in _header_attributes(given).items()}


def _header_attributes(given: Attributes) -> dict[str, tuple[str, str]]:
    """The first headers: for each the attribute that says it last, and its text."""
    found: dict[str, tuple[str, str]] = {}
    for name, value in given.items():
        if name.startswith(foreign.HTTP_HEADER_PREFIX) and len(found) < _MOST_HEADERS:
            one = value[0] if type(value) is list and value else value
            if type(one) is str:
                header = name.removeprefix(foreign.HTTP_HEADER_PREFIX).lower().replace("_", "-")
                found[header] = name, one[:200]
    return found


def is_failed_answer(given: Attributes) -> bool:
    """Whether a model's answer says that it failed, on a span that does not."""
    if text_of(given, foreign.RESPONSE_STATUS).lower() in _FAILED_ANSWERS:
        return True
    return any(reason.lower() in _FAILED_ANSWERS for reason in _finish_reasons(given))


def _finish_reasons(given: Attributes) -> list[str]:
    """At most 16 reasons; OpenLLMetry writes one as a text, others a list as JSON."""
    for name in foreign.FINISH_REASONS:
        said = given.get(name)
        if type(said) is str:
            return said[:200].strip('[]" ').replace('"', "").split(",")
        if type(said) is list:
            return [one for one in said[:16] if type(one) is str]
    return []


def read_of(given: Attributes) -> dict[str, object]:
    """What of these attributes may say something: no more than there are names that are read, and the most headers.

    A span may have a hundred thousand attributes, or one of megabytes, and a hundred exceptions, and each exception is
    looked at together with what the span says.
    """
    headers = {name for name, _ in _header_attributes(given).values()}
    return {
        name: value[:TEXT_CHARS] if type(value) is str else value
        for name, value in given.items()
        if name in foreign.READ or name in headers
    }
