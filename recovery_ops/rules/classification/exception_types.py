"""What the exception types of libraries mean, by qualified name; none of these libraries is ever imported.

A type does one of these things. It DECIDES. It says that what was read did not PARSE, and who wrote that decides. It
DEFERS to the code and the status that it carries, and its own category counts only when they say nothing. It WRAPS:
what it was raised from speaks first. Or it is WEAK: a built-in so general that anything else is better evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass

_C = Category


class Rank(Enum):
    """How much the type of an exception says."""

    DECIDES = "decides"
    PARSES = "parses"
    DEFERS = "defers"
    WRAPS = "wraps"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class TypeMeaning:
    """What one recognised type says; `category` is None where the type alone says nothing."""

    rank: Rank
    category: Category | None


@lru_cache(maxsize=2048)
def meaning_of(names: tuple[str, ...]) -> TypeMeaning | None:
    """The meaning of the most derived recognised name; `names` are those of a class and its bases, most derived first.

    Built-ins go by their bare name (`TimeoutError`), as OpenTelemetry's `error.type` has them.
    """
    for name in names:
        found = _MEANINGS.get(name.removeprefix("builtins."))
        if found is not None:
            return found
    return None


def _named(modules: str, names: str) -> Iterator[str]:
    return (f"{module}.{name}" for module in modules.split() for name in names.split())


def _decides(category: Category, *groups: Iterable[str]) -> dict[str, TypeMeaning]:
    return {name: TypeMeaning(Rank.DECIDES, category) for group in groups for name in group}


def _all(rank: Rank, category: Category | None, *groups: Iterable[str]) -> dict[str, TypeMeaning]:
    return {name: TypeMeaning(rank, category) for group in groups for name in group}


_HTTPX = "httpx httpx2"
_HTTPCORE = "httpcore httpcore2"
_REQUESTS = "requests.exceptions"
_URLLIB3 = "urllib3.exceptions"
_AIOHTTP = "aiohttp.client_exceptions aiohttp"
_BOTO = "botocore.exceptions"
_GRPC = "grpc grpc.aio grpc.aio._call grpc._channel"
_GOOGLE = "google.api_core.exceptions"
_REDIS = "redis.exceptions"
_MODELS = "openai anthropic"
_ANYIO = "anyio trio anyio._core._exceptions"

NEVER_CONNECTED: frozenset[str] = frozenset(
    (
        "ConnectionRefusedError",
        "socket.gaierror",
        "socket.herror",
        *_named(_HTTPX, "ConnectError"),
        *_named(_HTTPCORE, "ConnectError"),
        *_named(_URLLIB3, "NewConnectionError NameResolutionError"),
        *_named(_AIOHTTP, "ClientConnectorError ClientConnectorDNSError UnixClientConnectorError"),
        *_named(_BOTO, "EndpointConnectionError"),
    )
)
"""Types that prove that no connection was made, and so that nothing was done upstream."""

NEVER_SENT: frozenset[str] = NEVER_CONNECTED | {
    *("ssl.SSLCertVerificationError", "psycopg.errors.ConnectionTimeout", "psycopg_pool.PoolTimeout"),
    *("sqlalchemy.exc.TimeoutError", f"{_REDIS}.MaxConnectionsError", f"{_REQUESTS}.ConnectTimeout"),
    *_named(f"{_HTTPX} {_HTTPCORE}", "ConnectTimeout PoolTimeout"),
    *_named(_URLLIB3, "ConnectTimeoutError EmptyPoolError"),
    *_named(_AIOHTTP, "ConnectionTimeoutError"),
    *_named(_BOTO, "ConnectTimeoutError"),
}
"""Types that prove that the request did not leave: no connection, none free in the pool, no TLS session."""

CERTIFICATE_REFUSED: frozenset[str] = frozenset(
    ("ssl.SSLCertVerificationError", *_named(_AIOHTTP, "ClientConnectorCertificateError"))
)
"""Types of a certificate that was not accepted: the next call meets the same one."""

CONNECTION_LOST: frozenset[str] = frozenset(
    (
        "ConnectionResetError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "http.client.RemoteDisconnected",
        "http.client.IncompleteRead",
        "asyncio.exceptions.IncompleteReadError",
        *_named(_HTTPX, "ReadError WriteError CloseError RemoteProtocolError"),
        *_named(_HTTPCORE, "ReadError WriteError RemoteProtocolError"),
        *_named(_URLLIB3, "ProtocolError IncompleteRead InvalidChunkLength"),
        *_named(_REQUESTS, "ChunkedEncodingError"),
        *_named(_AIOHTTP, "ServerDisconnectedError ClientPayloadError ClientConnectionResetError"),
        *_named(_BOTO, "ConnectionClosedError ResponseStreamingError IncompleteReadError"),
        *_named(_ANYIO, "BrokenResourceError ClosedResourceError EndOfStream"),
        *_named("websockets.exceptions", "ConnectionClosed ConnectionClosedError"),
        "openai.WebSocketConnectionClosedError",
    )
)
"""Types of a connection that was cut under the request: the retry must not reuse one."""

_PARSING = _all(
    Rank.PARSES,
    _C.SCHEMA_MISMATCH,
    (
        "json.decoder.JSONDecodeError",
        "json.JSONDecodeError",
        "orjson.JSONDecodeError",
        "msgspec.DecodeError",
        "msgspec.ValidationError",
    ),
    ("pydantic_core._pydantic_core.ValidationError", "pydantic.error_wrappers.ValidationError"),
    ("jsonschema.exceptions.ValidationError", "marshmallow.exceptions.ValidationError"),
    _named(_REQUESTS, "JSONDecodeError"),
)

CONTROL_FLOW: frozenset[str] = frozenset(
    (
        # The errors of an interrupted graph, of a command to the parent graph, of a drained one.
        *_named("langgraph.errors", "GraphBubbleUp GraphInterrupt"),
        *_named(
            "pydantic_ai.exceptions",
            "ModelRetry CallDeferred ApprovalRequired SkipModelRequest RetryModelRequest SkipToolValidation"
            " SkipToolExecution ToolRetryError",
        ),
        # Retry, Ignore and Reject of a Celery task.
        "celery.exceptions.TaskPredicate",
        "mcp.shared.exceptions.UrlElicitationRequiredError",
        "crewai.flow.async_feedback.types.HumanFeedbackPending",
    )
)
"""Exceptions with which a framework steers a program: an interrupt, a request for approval. They are no failures."""

_CANCELS = _decides(
    _C.CANCELLED,
    CONTROL_FLOW,
    ("asyncio.exceptions.CancelledError", "concurrent.futures._base.CancelledError", "KeyboardInterrupt", "SystemExit"),
    (
        "trio.Cancelled",
        "GeneratorExit",
        "celery.exceptions.TaskRevokedError",
        "recovery_ops.runtime.errors.RunCancelled",
    ),
    _named("anyio", "CancelledError"),
    _named("concurrent.futures", "CancelledError"),
    _named(_GOOGLE, "Cancelled"),
)

_TIMEOUTS = _decides(
    _C.TIMEOUT,
    ("TimeoutError", "subprocess.TimeoutExpired", "trio.TooSlowError", "psycopg_pool.PoolTimeout"),
    ("sqlalchemy.exc.TimeoutError", "celery.exceptions.TimeoutError", "google.auth.exceptions.TimeoutError"),
    _named("billiard.exceptions", "SoftTimeLimitExceeded TimeLimitExceeded"),
    (
        "asyncio.TimeoutError",
        "asyncio.exceptions.TimeoutError",
        "concurrent.futures._base.TimeoutError",
        "socket.timeout",
    ),
    _named(f"{_HTTPX} {_HTTPCORE}", "TimeoutException ConnectTimeout ReadTimeout WriteTimeout PoolTimeout"),
    _named(_REQUESTS, "Timeout ConnectTimeout ReadTimeout"),
    _named(_URLLIB3, "TimeoutError ConnectTimeoutError ReadTimeoutError EmptyPoolError"),
    _named(_AIOHTTP, "ServerTimeoutError ConnectionTimeoutError SocketTimeoutError"),
    _named(_BOTO, "ConnectTimeoutError ReadTimeoutError"),
    _named(_MODELS, "APITimeoutError"),
    _named("grpc", "FutureTimeoutError"),
    _named(_GOOGLE, "DeadlineExceeded"),
    _named(_REDIS, "TimeoutError"),
)

_NETWORK = _decides(
    _C.NETWORK,
    NEVER_CONNECTED,
    CONNECTION_LOST,
    ("ConnectionError", "ssl.SSLError", "ssl.SSLCertVerificationError", "ssl.SSLEOFError", "ssl.SSLZeroReturnError"),
    ("http.client.HTTPException", "http.client.BadStatusLine", "kombu.exceptions.OperationalError"),
    ("google.auth.exceptions.TransportError", "asyncpg.exceptions.ConnectionDoesNotExistError"),
    ("asyncpg.exceptions._base.InterfaceError", "asyncpg.InterfaceError", "sqlalchemy.exc.DisconnectionError"),
    _named(_HTTPX, "TransportError NetworkError ProtocolError ProxyError DecodingError"),
    _named(_HTTPCORE, "NetworkError ProtocolError ProxyError ConnectionNotAvailable"),
    _named(_URLLIB3, "SSLError ProxyError DecodeError"),
    _named(_REQUESTS, "ContentDecodingError"),
    _named(_AIOHTTP, "ClientConnectionError ClientOSError ClientSSLError ServerConnectionError"),
    # aiohttp makes up status 400 for an answer that was not HTTP; what it was raised from tells.
    _named("aiohttp.http_exceptions", "HttpProcessingError"),
    _named(_BOTO, "ConnectionError HTTPClientError ProxyConnectionError SSLError"),
    _named(_MODELS, "APIConnectionError"),
    _named(_REDIS, "ConnectionError BusyLoadingError ReadOnlyError ClusterDownError MasterDownError TryAgainError"),
    _named("websockets.exceptions", "WebSocketException"),
)

_REFUSALS = (
    _decides(
        _C.AUTH,
        _named(_BOTO, "NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError"),
        _named(_BOTO, "NoAuthTokenError SSOError UnauthorizedSSOTokenError LoginError"),
        _named("anthropic", "CredentialsError"),
        _named("google.auth.exceptions", "RefreshError DefaultCredentialsError"),
        _named(_REDIS, "AuthenticationError AuthenticationWrongNumberOfArgsError"),
    )
    | _decides(_C.PERMISSION, ("PermissionError",), _named(_REDIS, "NoPermissionError AuthorizationError"))
    | _decides(
        _C.CONTENT_REFUSED,
        ("openai.ContentFilterFinishReasonError", "litellm.exceptions.ContentPolicyViolationError"),
    )
    | _decides(_C.POLICY_DENIED, ("litellm.exceptions.GuardrailRaisedException",))
    | _decides(_C.QUOTA_EXHAUSTED, ("litellm.exceptions.BudgetExceededError",))
    | _decides(_C.CONTEXT_OVERFLOW, ("litellm.exceptions.ContextWindowExceededError",))
    | _decides(_C.OVERLOADED, ("psycopg_pool.TooManyRequests", "recovery_ops.runtime.errors.CircuitOpen"))
    | _decides(_C.RATE_LIMITED, ("recovery_ops.runtime.errors.RetryAfterActive",))
    | _decides(_C.CONFLICT, _named(_REDIS, "WatchError LockError"))
)

_CALLERS_FAULT = (
    _decides(
        _C.SCHEMA_MISMATCH,
        _named(_MODELS, "APIResponseValidationError"),
        _named("google.genai.errors", "UnknownApiResponseError"),
    )
    | _decides(
        _C.MODEL_OUTPUT,
        ("openai.LengthFinishReasonError",),
        _named("google.genai.errors", "UnknownFunctionCallArgumentError"),
    )
    | _decides(_C.NOT_FOUND, ("FileNotFoundError",))
    | _decides(_C.RESOURCE, ("MemoryError", "subprocess.CalledProcessError"))
    | _decides(
        _C.BUG,
        ("recovery_ops.runtime.errors.ConfigurationError", f"{_REQUESTS}.InvalidJSONError"),
        _named(_HTTPX, "LocalProtocolError"),
    )
    | _decides(
        _C.INVALID_REQUEST,
        ("FileExistsError", "IsADirectoryError", "NotADirectoryError", "http.client.InvalidURL"),
        _named(_HTTPX, "UnsupportedProtocol InvalidURL TooManyRedirects"),
        _named(_HTTPCORE, "UnsupportedProtocol"),
        _named(_REQUESTS, "InvalidURL InvalidSchema MissingSchema URLRequired InvalidHeader TooManyRedirects"),
        _named(_URLLIB3, "LocationValueError"),
        _named(_AIOHTTP, "InvalidURL NonHttpUrlClientError TooManyRedirects"),
        _named(_BOTO, "ParamValidationError"),
        _named(_REDIS, "ResponseError DataError"),
    )
)

_DEFERRING = (
    _all(
        Rank.DEFERS,
        None,
        _named(_HTTPX, "HTTPStatusError"),
        _named(_MODELS, "APIError APIStatusError BadRequestError"),
        _named(_GRPC, "RpcError AioRpcError _InactiveRpcError _MultiThreadedRendezvous"),
        _named("google.genai.errors", "APIError ClientError ServerError"),
        _named("mcp.shared.exceptions mcp", "McpError MCPError"),
        _named("sqlite3", "Error DatabaseError OperationalError IntegrityError ProgrammingError"),
        _named("stripe stripe.error stripe._error", "StripeError"),
        _named("websockets.exceptions", "InvalidStatus InvalidStatusCode"),
        (f"{_GOOGLE}.GoogleAPICallError", f"{_BOTO}.ClientError", f"{_REQUESTS}.HTTPError", "urllib.error.HTTPError"),
        ("asyncpg.exceptions._base.PostgresError", "asyncpg.PostgresError"),
    )
    | _all(Rank.DEFERS, _C.RATE_LIMITED, _named(_MODELS, "RateLimitError"), _named(_GOOGLE, "TooManyRequests"))
    | _all(Rank.DEFERS, _C.OVERLOADED, ("anthropic.OverloadedError",))
    | _all(Rank.DEFERS, _C.AUTH, _named(_MODELS, "AuthenticationError"), _named(_GOOGLE, "Unauthorized"))
    | _all(Rank.DEFERS, _C.PERMISSION, _named(_MODELS, "PermissionDeniedError"), _named(_GOOGLE, "Forbidden"))
    | _all(Rank.DEFERS, _C.NOT_FOUND, _named(_MODELS, "NotFoundError"), _named(_GOOGLE, "NotFound"))
    | _all(Rank.DEFERS, _C.CONFLICT, _named(_MODELS, "ConflictError"), _named(_GOOGLE, "Conflict"))
    | _all(Rank.DEFERS, _C.IDEMPOTENCY_CONFLICT, _named("stripe stripe.error stripe._error", "IdempotencyError"))
    | _all(Rank.DEFERS, _C.STALE_EVIDENCE, ("anthropic.PreconditionFailedError", f"{_GOOGLE}.PreconditionFailed"))
    | _all(Rank.DEFERS, _C.SERVER_ERROR, _named(_MODELS, "InternalServerError"), _named(_GOOGLE, "ServerError"))
    | _all(Rank.DEFERS, _C.INVALID_REQUEST, _named(_MODELS, "UnprocessableEntityError"), _named(_GOOGLE, "ClientError"))
    | _all(Rank.DEFERS, _C.SCHEMA_MISMATCH, _named(_AIOHTTP, "ContentTypeError"))
    # SQLSTATE decides; a connection that is gone has none.
    | _all(Rank.DEFERS, _C.NETWORK, _named("psycopg psycopg2", "OperationalError InterfaceError"))
    | _all(Rank.DEFERS, _C.SERVER_ERROR, _named("psycopg psycopg2", "Error"))
    | _all(Rank.DEFERS, _C.INVALID_REQUEST, _named("psycopg psycopg2", "ProgrammingError DataError IntegrityError"))
)

_WRAPPING = (
    _all(
        Rank.WRAPS,
        _C.NETWORK,
        ("urllib.error.URLError", f"{_URLLIB3}.MaxRetryError"),
        _named(_REQUESTS, "ConnectionError ProxyError SSLError"),
        _named("sqlalchemy.exc django.db.utils", "OperationalError InterfaceError"),
    )
    | _all(
        Rank.WRAPS,
        None,
        _named(_AIOHTTP, "ClientResponseError ClientError"),
        (f"{_REQUESTS}.RequestException", f"{_URLLIB3}.HTTPError", f"{_BOTO}.BotoCoreError"),
    )
    | _all(Rank.WRAPS, _C.SERVER_ERROR, (f"{_REQUESTS}.RetryError", f"{_URLLIB3}.ResponseError"))
    | _all(Rank.WRAPS, _C.TIMEOUT, (f"{_GOOGLE}.RetryError",))
    | _all(Rank.WRAPS, _C.SERVER_ERROR, _named("sqlalchemy.exc", "DBAPIError"), _named("django.db.utils", "Error"))
    | _all(
        Rank.WRAPS,
        _C.INVALID_REQUEST,
        _named("sqlalchemy.exc django.db.utils", "ProgrammingError DataError IntegrityError NotSupportedError"),
    )
)

_WEAK = _all(Rank.WEAK, _C.NOT_FOUND, ("LookupError", "KeyError", "IndexError")) | _all(
    Rank.WEAK,
    _C.BUG,
    ("ValueError", "TypeError", "AttributeError", "AssertionError", "ArithmeticError", "NameError", "ImportError"),
    ("NotImplementedError", "RecursionError", "SyntaxError", "UnicodeDecodeError", "UnicodeEncodeError"),
    ("ZeroDivisionError", "OverflowError", "UnboundLocalError", "ModuleNotFoundError"),
)

_MEANINGS: dict[str, TypeMeaning] = (
    _NETWORK | _TIMEOUTS | _CANCELS | _PARSING | _REFUSALS | _CALLERS_FAULT | _DEFERRING | _WRAPPING | _WEAK
)


_TOO_COMMON = frozenset(
    ("Error", "ClientError", "ServerError", "ConfigurationError", "ValidationError", "HTTPException", "timeout")
)
"""Names that libraries and programs of any kind give to errors of any kind."""


@lru_cache(maxsize=1)
def _qualified_names() -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for name in _MEANINGS:
        module, _, bare = name.rpartition(".")
        if module and bare not in _MEANINGS and bare not in _TOO_COMMON:
            found.setdefault(bare, set()).add(name)
    return {
        bare: min(full)
        for bare, full in found.items()
        if len({_MEANINGS[name].category for name in full} - {None}) <= 1
    }


def qualified_name_of(bare: str) -> str:
    """A full name of the recognised types that are called so, where all of them mean the same; else an empty text."""
    return _qualified_names().get(bare, "")


def was_rejected(types: Iterable[tuple[str, ...]]) -> bool:
    """Whether the first recognised type of a chain is a rejection of ours: no call reached the service."""
    for names in types:
        if not _REJECTIONS.isdisjoint(names):
            return True
        if (meaning := meaning_of(names)) is not None and meaning.rank is not Rank.WRAPS:
            return False
    return False


ANSWERS = frozenset(("recovery_ops.runtime.integrations.mcp.ToolReportedError",))
"""The service answered, and the error is what it was asked for."""

_REJECTIONS = frozenset(
    f"recovery_ops.runtime.errors.{name}" for name in ("CallRejected", "CircuitOpen", "RetryAfterActive", "LoadShed")
)
