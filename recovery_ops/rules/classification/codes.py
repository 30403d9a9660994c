"""What the structured codes of error bodies and the HTTP statuses mean: one table each.

A code has one normal form: lower case, words joined by underscores, without namespace (`normal_code`). Codes with a
prefix come from numbering schemes: `sqlstate_`, `sqlite_`, `jsonrpc_` and `grpc_unknown`.
"""

from __future__ import annotations

from functools import lru_cache

from recovery_ops.rules.classification.vendor_errors import codes_of_vendors
from recovery_ops.rules.enums import Category, Verdict
from recovery_ops.rules.lazy_patterns import compiled

_C = Category


def _codes(category: Category, words: str) -> dict[str, Category]:
    return dict.fromkeys(words.split(), category)


CERTIFICATE_CODES = frozenset(
    (
        *("cert_has_expired", "depth_zero_self_signed_cert", "self_signed_cert_in_chain"),
        *("unable_to_verify_leaf_signature", "unable_to_get_issuer_cert_locally", "err_tls_cert_altname_invalid"),
    )
)
"""Node's codes of a certificate that was not accepted."""

_COMMON = (
    _codes(
        _C.RATE_LIMITED,
        "rate_limited rate_limit too_many_requests toomanyrequests",
    )
    | _codes(_C.QUOTA_EXHAUSTED, "quota_exceeded storage_quota_exceeded payment_required")
    | _codes(_C.OVERLOADED, "overloaded")
    | _codes(
        _C.AUTH,
        "invalid_authentication unauthorized invalid_token token_expired",
    )
    | _codes(_C.PERMISSION, "access_denied forbidden")
    | _codes(_C.POLICY_DENIED, "policy_denied blocked_by_policy")
    | _codes(_C.CONTENT_REFUSED, "content_refused")
    | _codes(_C.NOT_FOUND, "not_found notfound modelnotfound resource_not_found resourcenotfound")
    | _codes(_C.CONFLICT, "conflict")
    | _codes(
        _C.STALE_EVIDENCE,
        "evidence_stale stale_evidence evidence_expired precondition_failed preconditionfailed etag_mismatch",
    )
    | _codes(_C.CONTEXT_OVERFLOW, "context_window_exceeded context_overflow")
    | _codes(_C.INVALID_REQUEST, "invalid_params")
    | _codes(_C.SCHEMA_MISMATCH, "schema_mismatch schema_validation")
    | _codes(_C.TIMEOUT, "timeout request_timeout")
    | dict.fromkeys(CERTIFICATE_CODES, _C.NETWORK)
    | _codes(_C.NETWORK, "connection_error network_error")
    | _codes(_C.SERVER_ERROR, "internal_error gateway_timeout")
)
"""Words that adapters and services of any kind use."""

_NUMBERED = (
    _codes(_C.NOT_FOUND, "jsonrpc_-32601 jsonrpc_-32002")
    | _codes(_C.CONFLICT, "sqlite_busy sqlite_locked sqlstate_40 sqlstate_55p03")
    | _codes(
        _C.INVALID_REQUEST,
        "jsonrpc_-32700 jsonrpc_-32600 jsonrpc_-32602 sqlite_error sqlite_constraint sqlite_misuse sqlite_mismatch "
        "sqlite_range sqlstate_21 sqlstate_22 sqlstate_23 sqlstate_42",
    )
    | _codes(_C.PERMISSION, "sqlstate_42501 sqlite_readonly sqlite_auth sqlite_perm")
    | _codes(_C.RESOURCE, "sqlite_full sqlite_nomem sqlite_ioerr sqlite_cantopen")
    | _codes(_C.AUTH, "sqlstate_28")
    | _codes(_C.TIMEOUT, "jsonrpc_-32001 sqlstate_57014")
    | _codes(_C.NETWORK, "jsonrpc_-32000 sqlstate_08 sqlstate_57p01 sqlstate_57p02 sqlstate_57p03 sqlstate_25006")
    | _codes(_C.OVERLOADED, "sqlstate_53300")
    | _codes(
        _C.SERVER_ERROR, "grpc_unknown jsonrpc_-32603 sqlite_corrupt sqlstate_53 sqlstate_57 sqlstate_58 sqlstate_xx"
    )
)

GRPC = (
    *("", "cancelled", "grpc_unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists"),
    *("permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented"),
    *("internal", "unavailable", "data_loss", "unauthenticated"),
)
"""The codes of gRPC by number."""

CODES: dict[str, Category] = codes_of_vendors() | _COMMON | _NUMBERED
"""Codes that name a cause. They beat the status: AWS answers 400 for expired credentials and for timeouts."""

GENERAL_CODES: dict[str, Category] = (
    _codes(
        _C.INVALID_REQUEST,
        "invalid_request_error invalid_request invalid_argument bad_request badrequest badrequesterror invalid_prompt "
        "validationexception validation_error failed_precondition out_of_range invalid_request_prompt",
    )
    | _codes(
        _C.SERVER_ERROR,
        "api_error server_error internal internalservererror internal_server_error data_loss "
        "serviceunavailableexception serviceunavailable service_unavailable",
    )
    | _codes(_C.NETWORK, "unavailable")
)
"""Codes that name no more than a status does: a status beats them; where there is none (in a stream) they speak."""


def _kinds() -> dict[str, Category]:
    return {
        **{category.value: category for category in Category if category is not Category.UNKNOWN},
        Verdict.TRANSIENT_TIMEOUT.value: Category.TIMEOUT,
        Verdict.SERVER_ERROR_5XX.value: Category.SERVER_ERROR,
        Verdict.EVIDENCE_STALE.value: Category.STALE_EVIDENCE,
        "4xx": Category.INVALID_REQUEST,
        "5xx": Category.SERVER_ERROR,
    }


KINDS: dict[str, Category] = _kinds()
"""What an adapter may put into `error.kind`: a category, one of the six verdicts, or a class of statuses."""

_STATUS: dict[int, Category] = {
    401: _C.AUTH,
    402: _C.QUOTA_EXHAUSTED,
    403: _C.PERMISSION,
    404: _C.NOT_FOUND,
    407: _C.AUTH,
    408: _C.TIMEOUT,
    409: _C.CONFLICT,
    410: _C.NOT_FOUND,
    412: _C.STALE_EVIDENCE,
    429: _C.RATE_LIMITED,
    451: _C.POLICY_DENIED,
    499: _C.CANCELLED,
    529: _C.OVERLOADED,
}


def category_of_status(status: int | None) -> Category | None:
    """What an HTTP status alone says; None below 400 and above 599."""
    if status is None or not 400 <= status <= 599:
        return None
    return _STATUS.get(status) or (_C.SERVER_ERROR if status >= 500 else _C.INVALID_REQUEST)


_NOT_IN_A_CODE = compiled(r"[\s-]+")
_IS_NUMBERED = compiled(r"(?:jsonrpc|sqlstate|sqlite|grpc)_")


@lru_cache(maxsize=1024)
def normal_code(text: str) -> str:
    """The one form in which codes are compared: `com.amazon#ThrottlingException:…` → `throttlingexception`."""
    code = text[:200].strip().rpartition("#")[2].partition(":")[0].lower()
    return code if _IS_NUMBERED.match(code) else _NOT_IN_A_CODE.sub("_", code)


_STARTS_WITH_STATUS = compiled(r"([45]\d\d)(?:_[a-z_]+)?\Z")


def category_of_kind(kind: str | None) -> Category | None:
    """The category of an adapter's `error.kind`: a category, a verdict, a known code, or `409_conflict`."""
    if kind is None:
        return None
    status = _STARTS_WITH_STATUS.match(kind)
    return KINDS.get(kind) or category_of_code(kind) or (category_of_status(int(status[1])) if status else None)


_KEY_WAS_USED = compiled(
    r"idempoten.*(?:conflict|used?\b|re_?use|mismatch|duplicate|already|processed|exists|in_progress)"
)


def category_of_code(code: str) -> Category | None:
    """What a code that names a cause says; codes of a numbering scheme are also looked up by their class."""
    found = CODES.get(code)
    if found is not None:
        return found
    if "idempoten" in code and _KEY_WAS_USED.match(code):
        return _C.IDEMPOTENCY_CONFLICT
    if code.startswith("sqlstate_"):
        return CODES.get(code[: len("sqlstate_00")], _C.SERVER_ERROR)
    if code.startswith("sqlite_"):
        return CODES.get("_".join(code.split("_")[:2]))
    return None
