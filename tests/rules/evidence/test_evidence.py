"""Every category by every kind of evidence that can reach it, the order of evidence, and what must not match."""

from __future__ import annotations

import errno

import pytest

from recovery_ops.rules.enums import Category, Evidence, Verdict
from tests.support.evidence import chained, of, spelled_out, typed

C, E = Category, Evidence


BY_TYPE: dict[str, Category] = {
    "ConnectionResetError": C.NETWORK,
    "socket.gaierror": C.NETWORK,
    "ssl.SSLError": C.NETWORK,
    "http.client.RemoteDisconnected": C.NETWORK,
    "http.client.BadStatusLine http.client.HTTPException": C.NETWORK,
    "httpx.ConnectError": C.NETWORK,
    "httpx.RemoteProtocolError": C.NETWORK,
    "httpx2.ReadError": C.NETWORK,
    "httpcore.ConnectError": C.NETWORK,
    "requests:ConnectionError": C.NETWORK,
    "requests:ChunkedEncodingError": C.NETWORK,
    "urllib3:ProtocolError": C.NETWORK,
    "urllib3:NewConnectionError urllib3:ConnectTimeoutError urllib3:TimeoutError": C.NETWORK,
    "aiohttp:ServerDisconnectedError": C.NETWORK,
    "aiohttp:ClientPayloadError": C.NETWORK,
    "botocore:EndpointConnectionError": C.NETWORK,
    "openai.APIConnectionError openai.APIError": C.NETWORK,
    "anthropic.APIConnectionError anthropic.APIError": C.NETWORK,
    "redis.exceptions.ConnectionError": C.NETWORK,
    "psycopg.OperationalError psycopg.DatabaseError psycopg.Error": C.NETWORK,
    "sqlalchemy.exc.OperationalError sqlalchemy.exc.DatabaseError sqlalchemy.exc.DBAPIError": C.NETWORK,
    "TimeoutError OSError": C.TIMEOUT,
    "httpx.ReadTimeout httpx.TimeoutException httpx.TransportError": C.TIMEOUT,
    "httpcore.PoolTimeout httpcore.TimeoutException": C.TIMEOUT,
    "requests:ConnectTimeout requests:ConnectionError requests:Timeout OSError": C.TIMEOUT,
    "urllib3:ReadTimeoutError urllib3:TimeoutError": C.TIMEOUT,
    "aiohttp:SocketTimeoutError aiohttp:ClientConnectionError TimeoutError": C.TIMEOUT,
    "botocore:ReadTimeoutError botocore:HTTPClientError": C.TIMEOUT,
    "openai.APITimeoutError openai.APIConnectionError": C.TIMEOUT,
    "redis.exceptions.TimeoutError": C.TIMEOUT,
    "subprocess.TimeoutExpired": C.TIMEOUT,
    "openai.RateLimitError openai.APIStatusError": C.RATE_LIMITED,
    "anthropic.OverloadedError anthropic.InternalServerError": C.OVERLOADED,
    "openai.InternalServerError openai.APIStatusError": C.SERVER_ERROR,
    "litellm.exceptions.ContextWindowExceededError openai.BadRequestError": C.CONTEXT_OVERFLOW,
    "litellm.exceptions.BudgetExceededError": C.QUOTA_EXHAUSTED,
    "openai.UnprocessableEntityError openai.APIStatusError": C.INVALID_REQUEST,
    "openai.AuthenticationError openai.APIStatusError": C.AUTH,
    "botocore:NoCredentialsError": C.AUTH,
    "PermissionError OSError": C.PERMISSION,
    "openai.ContentFilterFinishReasonError": C.CONTENT_REFUSED,
    "FileNotFoundError OSError": C.NOT_FOUND,
    "KeyError LookupError": C.NOT_FOUND,
    "openai.ConflictError openai.APIStatusError": C.CONFLICT,
    "redis.exceptions.WatchError": C.CONFLICT,
    "stripe.IdempotencyError stripe.StripeError": C.IDEMPOTENCY_CONFLICT,
    "anthropic.PreconditionFailedError anthropic.APIStatusError": C.STALE_EVIDENCE,
    "json.decoder.JSONDecodeError ValueError": C.SCHEMA_MISMATCH,
    "pydantic_core._pydantic_core.ValidationError ValueError": C.SCHEMA_MISMATCH,
    "requests:JSONDecodeError OSError json.decoder.JSONDecodeError ValueError": C.SCHEMA_MISMATCH,
    "openai.APIResponseValidationError openai.APIError": C.SCHEMA_MISMATCH,
    "openai.LengthFinishReasonError": C.MODEL_OUTPUT,
    "ValueError": C.BUG,
    "TypeError": C.BUG,
    "AttributeError": C.BUG,
    "AssertionError": C.BUG,
    "MemoryError": C.RESOURCE,
    "subprocess.CalledProcessError": C.RESOURCE,
    "asyncio.exceptions.CancelledError": C.CANCELLED,
    "concurrent.futures._base.CancelledError": C.CANCELLED,
    "trio.Cancelled": C.CANCELLED,
}

BY_CODE: dict[str, Category] = {
    "unavailable": C.NETWORK,
    "jsonrpc_-32000": C.NETWORK,
    "sqlstate_08006": C.NETWORK,
    "sqlstate_57p01": C.NETWORK,
    "deadline_exceeded": C.TIMEOUT,
    "sqlstate_57014": C.TIMEOUT,
    "rate_limit_exceeded": C.RATE_LIMITED,
    "throttlingexception": C.RATE_LIMITED,
    "resource_exhausted": C.RATE_LIMITED,
    "usage_limit_reached": C.RATE_LIMIT_WINDOW,
    "insufficient_quota": C.QUOTA_EXHAUSTED,
    "billing_error": C.QUOTA_EXHAUSTED,
    "overloaded_error": C.OVERLOADED,
    "sqlstate_53300": C.OVERLOADED,
    "api_error": C.SERVER_ERROR,
    "sqlstate_xx000": C.SERVER_ERROR,
    "context_length_exceeded": C.CONTEXT_OVERFLOW,
    "invalid_argument": C.INVALID_REQUEST,
    "sqlstate_42601": C.INVALID_REQUEST,
    "invalid_api_key": C.AUTH,
    "sqlstate_28p01": C.AUTH,
    "permission_error": C.PERMISSION,
    "sqlstate_42501": C.PERMISSION,
    "content_filter": C.CONTENT_REFUSED,
    "model_not_found": C.NOT_FOUND,
    "jsonrpc_-32601": C.NOT_FOUND,
    "aborted": C.CONFLICT,
    "sqlstate_40001": C.CONFLICT,
    "sqlite_busy_timeout": C.CONFLICT,
    "idempotency_key_in_use": C.IDEMPOTENCY_CONFLICT,
    "evidence_stale": C.STALE_EVIDENCE,
    "schema_mismatch": C.SCHEMA_MISMATCH,
    "sqlite_full": C.RESOURCE,
    "cancelled": C.CANCELLED,
}

BY_STATUS: dict[int, Category] = {
    400: C.INVALID_REQUEST,
    401: C.AUTH,
    402: C.QUOTA_EXHAUSTED,
    403: C.PERMISSION,
    404: C.NOT_FOUND,
    405: C.INVALID_REQUEST,
    408: C.TIMEOUT,
    409: C.CONFLICT,
    410: C.NOT_FOUND,
    412: C.STALE_EVIDENCE,
    413: C.INVALID_REQUEST,
    415: C.INVALID_REQUEST,
    418: C.INVALID_REQUEST,
    422: C.INVALID_REQUEST,
    429: C.RATE_LIMITED,
    499: C.CANCELLED,
    500: C.SERVER_ERROR,
    503: C.SERVER_ERROR,
    504: C.SERVER_ERROR,
    529: C.OVERLOADED,
    599: C.SERVER_ERROR,
}

POOL = "HTTPConnectionPool(host='localhost', port=9): Max retries exceeded with url: / (Caused by {})"
BY_MESSAGE: dict[str, Category] = {
    "cannot access host: connection timed out": C.TIMEOUT,
    "Error: cannot access db.internal:5432: Connection timed out.": C.TIMEOUT,
    "The request timed out": C.TIMEOUT,
    "[Errno 104] Connection reset by peer": C.NETWORK,
    "upstream: connection refused": C.NETWORK,
    "socket hang up": C.NETWORK,
    "Server disconnected without sending a response.": C.NETWORK,
    "Too many tokens, please wait before trying again.": C.RATE_LIMITED,
    "Too Many Requests": C.RATE_LIMITED,
    "This request would exceed your organization's rate limit of 30,000 input tokens per minute.": C.RATE_LIMITED,
    "Overloaded": C.OVERLOADED,
    "The model is overloaded. Please try again later.": C.OVERLOADED,
    "prompt is too long: 208310 tokens > 200000 maximum": C.CONTEXT_OVERFLOW,
    "Error code: 400 - {'error': {'message': 'prompt is too long: 5 tokens > 4 maximum'}}": C.CONTEXT_OVERFLOW,
    "Your credit balance is too low to access the Anthropic API.": C.QUOTA_EXHAUSTED,
    "No space left on device": C.RESOURCE,
    "Permission denied": C.PERMISSION,
    "[Errno 13] Permission denied: '/etc/shadow'": C.PERMISSION,
    "EACCES: permission denied, open '/etc/shadow'": C.PERMISSION,
    "Access denied.": C.PERMISSION,
    "access denied": C.PERMISSION,
    "Forbidden": C.PERMISSION,
    "permission denied for table orders": C.PERMISSION,
    "Unauthorized": C.AUTH,
    "Invalid API key": C.AUTH,
    "Authentication failed": C.AUTH,
    "Token has expired": C.AUTH,
    "Access denied for user 'app'@'db' (using password: YES)": C.AUTH,
    "file not found": C.NOT_FOUND,
    "File not found: /tmp/report.csv": C.NOT_FOUND,
    "Resource not found": C.NOT_FOUND,
    "The requested resource was not found": C.NOT_FOUND,
    "The file /tmp/report.csv does not exist": C.NOT_FOUND,
    'relation "orders" does not exist': C.NOT_FOUND,
    "[Errno 2] No such file or directory: 'x'": C.NOT_FOUND,
    "ENOENT: no such file or directory, open 'x'": C.NOT_FOUND,
    "Tool 'search' not found": C.NOT_FOUND,
    "Request timed out after 30 seconds": C.TIMEOUT,
    "The read operation timed out": C.TIMEOUT,
    "Timed out while waiting for response to ClientRequest. Waited 30.0 seconds.": C.TIMEOUT,
    "timeout of 5000ms exceeded": C.TIMEOUT,
    "HTTPSConnectionPool(host='x', port=443): Read timed out. (read timeout=5)": C.TIMEOUT,
    'Post "https://x/v1": context deadline exceeded': C.TIMEOUT,
    "connect ECONNREFUSED 127.0.0.1:5432": C.NETWORK,
    "read ECONNRESET": C.NETWORK,
    "getaddrinfo ENOTFOUND api.example.com": C.NETWORK,
    "connect ETIMEDOUT 10.0.0.1:443": C.TIMEOUT,
    "Page.goto: net::ERR_CONNECTION_REFUSED at http://localhost:9/": C.NETWORK,
    "net::ERR_NAME_NOT_RESOLVED at https://x.example/": C.NETWORK,
    "Page.goto: net::ERR_TIMED_OUT at https://x.example/": C.TIMEOUT,
    "Page.goto: Timeout 30000ms exceeded.": C.TIMEOUT,
    "rpc error: code = DeadlineExceeded desc = context deadline exceeded": C.TIMEOUT,
    "rpc error: code = Unavailable desc = connection error": C.NETWORK,
    POOL.format("NewConnectionError('<x>: Failed to establish a new connection: [Errno 111] refused')"): C.NETWORK,
    POOL.format("ReadTimeoutError('Read timed out. (read timeout=5)')"): C.TIMEOUT,
    'connection failed: FATAL:  password authentication failed for user "ann"': C.AUTH,
    "Gateway Time-out": C.TIMEOUT,
    "Connection error.": C.NETWORK,
    "dial tcp 10.0.0.1:443: connect: connection refused": C.NETWORK,
    "Cannot connect to host x:443 ssl:default [Connect call failed]": C.NETWORK,
    "Failed to establish a new connection: [Errno 111] Connection refused": C.NETWORK,
    "upstream connect error or disconnect/reset before headers. reset reason: connection termination": C.NETWORK,
    "fetch failed": C.NETWORK,
    "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1000)": C.NETWORK,
    "Bad gateway": C.SERVER_ERROR,
    "no healthy upstream": C.SERVER_ERROR,
    "upstream request timeout": C.TIMEOUT,
    "The operation was aborted due to timeout": C.TIMEOUT,
    "You are not authorized to do this": C.PERMISSION,
    "User: arn:aws:iam::1:user/x is not authorized to perform: s3:GetObject": C.PERMISSION,
    "Document with id 5 not found": C.NOT_FOUND,
    "overloaded_error": C.OVERLOADED,
    "429 Rate limit reached for requests": C.RATE_LIMITED,
    "400 Your input exceeds the context window of this model": C.CONTEXT_OVERFLOW,
    "Service Unavailable": C.SERVER_ERROR,
    "Service temporarily unavailable": C.SERVER_ERROR,
    "Internal Server Error": C.SERVER_ERROR,
    "Rate limit exceeded": C.RATE_LIMITED,
    "rate limit reached for requests": C.RATE_LIMITED,
    "Server overloaded": C.OVERLOADED,
    "idempotency_key already processed": C.IDEMPOTENCY_CONFLICT,
    "Idempotency-Key has already been used": C.IDEMPOTENCY_CONFLICT,
}


@pytest.mark.parametrize(
    "message",
    [
        "CERT_HAS_EXPIRED",
        "request to https://x.example failed, reason: UNABLE_TO_VERIFY_LEAF_SIGNATURE",
        "Error: DEPTH_ZERO_SELF_SIGNED_CERT",
        "ERR_TLS_CERT_ALTNAME_INVALID",
        "Hostname mismatch, certificate is not valid for 'x.example'",
    ],
)
def test_certificate_known_by_words_failed(message: str) -> None:
    failure = of(message=message, types=typed("RuntimeError"))
    assert (failure.category, failure.certificate_failed, failure.can_retry) == (C.NETWORK, True, False)


@pytest.mark.parametrize(("names", "category"), BY_TYPE.items())
def test_by_exception_type(names: str, category: Category) -> None:
    failure = of(types=typed(*names.split()))
    assert (failure.category, failure.evidence) == (category, E.EXCEPTION_TYPE)
    assert failure.error_type == failure.exception_type == spelled_out(names.partition(" ")[0])


@pytest.mark.parametrize(("code", "category"), BY_CODE.items())
def test_by_structured_code(code: str, category: Category) -> None:
    failure = of(code=code)
    assert (failure.category, failure.evidence) == (category, E.STRUCTURED_CODE)


@pytest.mark.parametrize(("status", "category"), BY_STATUS.items())
def test_by_http_status(status: int, category: Category) -> None:
    failure = of(status_code=status)
    assert (failure.category, failure.evidence) == (category, E.HTTP_STATUS)
    assert (failure.status_code, failure.error_type) == (status, str(status))


@pytest.mark.parametrize(("message", "category"), BY_MESSAGE.items())
def test_by_anchored_message(message: str, category: Category) -> None:
    failure = of(message=message, types=typed("RuntimeError"))
    assert (failure.category, failure.evidence) == (category, E.MESSAGE_PATTERN)


@pytest.mark.parametrize("category", [category for category in Category if category is not C.UNKNOWN])
def test_an_adapter_can_name_every_category(category: Category) -> None:
    failure = of(kind=category.value)
    assert (failure.category, failure.evidence) == (category, E.STRUCTURED_CODE)


PAGE = "<!DOCTYPE html>\n<html>\n<head><title>{}</title></head><body>sorry</body></html>"

BY_QUOTED_STATUS: dict[str, int] = {
    "Error code: 500 - {'error': {}}": 500,
    "Server error '502 Bad Gateway' for url 'http://x/'": 502,
    "404 Client Error: Not Found for url: http://x/": 404,
    "HTTP Error 401: Unauthorized": 401,
    "Request failed with status code 429": 429,
    "429, message='Too Many Requests', url='http://x/'": 429,
    "API Error: 529": 529,
    "status_code: 503, model_name: large": 503,
    "status_code: 429, model_name: large, body: None": 429,
    "503 Service Unavailable": 503,
    "openrouter: status 429: slow": 429,
    "vLLM HTTP error: 500 - {'detail': 'x'}": 500,
    PAGE.format("502 Bad Gateway"): 502,
    PAGE.format("example.com | 524: A timeout occurred"): 524,
}


@pytest.mark.parametrize(("message", "status"), BY_QUOTED_STATUS.items())
def test_quoted_status_counts_as_status(message: str, status: int) -> None:
    quoted, plain = of(message=message, types=typed("RuntimeError")), of(status_code=status)
    assert (quoted.category, quoted.evidence, quoted.status_code) == (plain.category, E.HTTP_STATUS, status)


@pytest.mark.parametrize(
    ("kind", "category"),
    [
        ("5xx", C.SERVER_ERROR),
        ("4xx", C.INVALID_REQUEST),
        ("409_conflict", C.CONFLICT),
        ("412_precondition", C.STALE_EVIDENCE),
        ("403_forbidden", C.PERMISSION),
        ("404_not_found", C.NOT_FOUND),
        ("429_too_many_requests", C.RATE_LIMITED),
        ("503", C.SERVER_ERROR),
        ("schema_validation", C.SCHEMA_MISMATCH),
    ],
)
def test_kind_of_adapter_is_structure(kind: str, category: Category) -> None:
    failure = of(kind=kind)
    assert (failure.category, failure.evidence) == (category, E.STRUCTURED_CODE)


@pytest.mark.parametrize(
    ("parts", "category"),
    [
        ({"message": "idempotency_key already processed"}, C.IDEMPOTENCY_CONFLICT),
        ({"code": "idempotency_key_already_processed"}, C.IDEMPOTENCY_CONFLICT),
        ({"code": "duplicate_idempotency_key"}, C.IDEMPOTENCY_CONFLICT),
        ({"message": "the row has changed"}, C.CONFLICT),
        ({"message": "idempotency key is required"}, C.CONFLICT),
        ({"message": "idempotency key is still being processed"}, C.CONFLICT),
        ({"message": "idempotency key is still processed by nobody, but was used"}, C.IDEMPOTENCY_CONFLICT),
        ({"code": "version_conflict"}, C.CONFLICT),
    ],
)
def test_conflict_kind_with_used_key_is_idempotency(parts: dict[str, object], category: Category) -> None:
    assert of(kind="409_conflict", **parts).category is category
    assert of(status_code=409, **parts).category is category


@pytest.mark.parametrize("verdict", Verdict)
def test_an_adapter_can_name_every_verdict(verdict: Verdict) -> None:
    assert of(kind=verdict.value).verdict is verdict


@pytest.mark.parametrize(
    "message",
    [
        "",
        "something odd happened",
        "tokens: [9906, 429, 1234]",
        "the user asked why a connection timed out and went on",
        "rate limits are described on our page",
        "the answer is 503",
        "document: how to fix 'connection refused' in ten steps",
        "user said: prompt is too long: 5 tokens > 4 maximum",
        "overloaded operators are not supported in this language",
        "429",
        "the token 429 stands at the end",
        "a person was denied permission to enter",
        "permission denied is what the log says about it",
        "the forbidden city",
        "file not found errors are counted",
        "time is out of joint",
        "gateways are bad for that",
        "a page about net::ERR_TIMED_OUT",
        "Timeout 30 is the name of a band",
        "password authentication is how users sign in",
        "the service that is unavailable on Sundays",
        "idempotency keys are documented on our page",
        "the connection error rate is 5 %",
        "nobody knows whether x509 is used",
        "404 pages were crawled",
        "503 Main Street",
        PAGE.format("Error pages: 502 of them"),
        "the page says <html><title>502 Bad Gateway</title>",
        "rate_limit_policy",
    ],
)
def test_words_somewhere_in_a_text_are_no_evidence(message: str) -> None:
    failure = of(message=message, types=typed("RuntimeError"))
    assert (failure.category, failure.evidence, failure.overflow) == (C.UNKNOWN, E.NONE, None)


TYPE, CODE, STATUS = E.EXCEPTION_TYPE, E.STRUCTURED_CODE, E.HTTP_STATUS

ORDER: list[tuple[dict[str, object], Category, Evidence]] = [
    # type > code > status > message
    ({"types": typed("httpx.ReadTimeout"), "code": "rate_limit_error", "status_code": 500}, C.TIMEOUT, TYPE),
    ({"code": "expiredtokenexception", "status_code": 400}, C.AUTH, CODE),
    ({"kind": "policy_denied", "code": "rate_limit_error", "status_code": 500}, C.POLICY_DENIED, CODE),
    ({"status_code": 404, "message": "connection timed out"}, C.NOT_FOUND, STATUS),
    # a general code says less than the status; an unknown one says nothing
    ({"code": "invalid_request_error", "status_code": 401}, C.AUTH, STATUS),
    ({"code": "odd", "other_codes": ("insufficient_quota",), "status_code": 429}, C.QUOTA_EXHAUSTED, CODE),
    # a vendor's sentence refines a 400 or 413, and nothing else
    (
        {"status_code": 413, "message": "prompt is too long: 5 tokens > 4 maximum"},
        C.CONTEXT_OVERFLOW,
        E.MESSAGE_PATTERN,
    ),
    ({"status_code": 422, "message": "prompt is too long: 5 tokens > 4 maximum"}, C.INVALID_REQUEST, STATUS),
    ({"status_code": 429, "message": "prompt is too long: 5 tokens > 4 maximum"}, C.RATE_LIMITED, STATUS),
    ({"status_code": 500, "message": "Overloaded"}, C.SERVER_ERROR, STATUS),
    # a vendor's class defers to what it carries
    ({"types": typed("openai.RateLimitError"), "code": "insufficient_quota"}, C.QUOTA_EXHAUSTED, CODE),
    ({"types": typed("openai.BadRequestError"), "code": "context_length_exceeded"}, C.CONTEXT_OVERFLOW, CODE),
    ({"types": typed("httpx.HTTPStatusError"), "status_code": 503}, C.SERVER_ERROR, STATUS),
    ({"types": typed("httpx.HTTPStatusError")}, C.UNKNOWN, E.NONE),
    ({"types": chained("psycopg.errors.Query psycopg.OperationalError"), "code": "sqlstate_57014"}, C.TIMEOUT, CODE),
    # the first recognised type of the chain, never its root
    ({"types": chained("app.ToolError", "httpx.RemoteProtocolError", "ValueError")}, C.NETWORK, TYPE),
    ({"types": chained("PermissionError OSError", "httpx.ReadTimeout")}, C.PERMISSION, TYPE),
    # a general built-in gives way to anything else but words
    ({"types": chained("ValueError", "httpx.ReadTimeout")}, C.TIMEOUT, TYPE),
    ({"types": chained("app.Broken ValueError"), "status_code": 503}, C.SERVER_ERROR, STATUS),
    ({"types": chained("ValueError", "openai.RateLimitError")}, C.RATE_LIMITED, TYPE),
    ({"types": typed("ValueError"), "message": "connection timed out"}, C.BUG, TYPE),
    # the most derived name wins
    ({"types": chained("aiohttp:ServerTimeoutError aiohttp:ClientConnectionError")}, C.TIMEOUT, TYPE),
    # a wrapper lets its cause speak first
    ({"types": chained("requests:ConnectionError OSError", "urllib3:ReadTimeoutError")}, C.TIMEOUT, TYPE),
    ({"types": chained("sqlalchemy.exc.OperationalError", "sqlite3.Error"), "code": "sqlite_busy"}, C.CONFLICT, CODE),
    # aiohttp makes up a status 400 for what is not HTTP
    ({"types": chained("aiohttp:ClientResponseError"), "status_code": 400}, C.INVALID_REQUEST, STATUS),
    (
        {
            "types": chained("aiohttp:ClientResponseError", "aiohttp.http_exceptions.HttpProcessingError"),
            "status_code": 400,
        },
        C.NETWORK,
        TYPE,
    ),
    # errors of a stream that began well
    ({"types": typed("anthropic.APIStatusError"), "status_code": 200, "code": "overloaded_error"}, C.OVERLOADED, CODE),
    ({"types": typed("builtins.TimeoutError")}, C.TIMEOUT, TYPE),
]


@pytest.mark.parametrize(("parts", "category", "evidence"), ORDER)
def test_the_order_of_evidence(parts: dict[str, object], category: Category, evidence: Evidence) -> None:
    failure = of(**parts)
    assert (failure.category, failure.evidence) == (category, evidence)


def test_a_status_below_a_deciding_type_belongs_to_something_else() -> None:
    assert of(types=typed("aiohttp:ClientPayloadError"), status_code=400).status_code is None


@pytest.mark.parametrize(
    ("number", "category"),
    [
        (errno.ENOSPC, C.RESOURCE),
        (errno.ENOMEM, C.RESOURCE),
        (errno.EMFILE, C.RESOURCE),
        (errno.EHOSTUNREACH, C.NETWORK),
        (errno.ECONNRESET, C.NETWORK),
        (errno.EINVAL, C.UNKNOWN),
    ],
)
def test_by_errno(number: int, category: Category) -> None:
    assert of(types=typed("OSError"), errno=number).category is category


def test_who_wrote_what_does_not_parse_decides_between_model_and_tool() -> None:
    broken = typed("json.decoder.JSONDecodeError", "ValueError")
    assert of(types=broken).category is C.SCHEMA_MISMATCH
    assert of(types=broken, is_model_output=True).category is C.MODEL_OUTPUT
    envelope = typed("openai.APIResponseValidationError", "openai.APIError")
    assert of(types=envelope, is_model_output=True).category is C.SCHEMA_MISMATCH
