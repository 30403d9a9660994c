"""What the structured codes of error bodies and the HTTP statuses mean: one table each.

A code has one normal form: lower case, words joined by underscores, without namespace (`normal_code`). Codes with a
prefix come from numbering schemes: `sqlstate_`, `sqlite_`, `jsonrpc_` and `grpc_unknown`.
"""

from __future__ import annotations

from functools import lru_cache

from recovery_ops.rules.patterns import compiled
from recovery_ops.rules.words import Category, Verdict

_C = Category


def _codes(category: Category, words: str) -> dict[str, Category]:
    return dict.fromkeys(words.split(), category)


_CAPACITY = (
    _codes(
        _C.RATE_LIMITED,
        "rate_limit_error rate_limit_exceeded rate_limit_reached rate_limited rate_limit ratelimitexceeded "
        "ratelimitreached ratelimiterror too_many_requests toomanyrequests ramp_limit_exceeded resource_exhausted "
        "throttling throttlingexception throttledexception throttled requestthrottled requestthrottledexception "
        "toomanyrequestsexception provisionedthroughputexceededexception requestlimitexceeded slowdown "
        "bandwidthlimitexceeded priorrequestnotcomplete ec2throttledexception",
    )
    | _codes(_C.RATE_LIMIT_WINDOW, "usage_limit_reached")
    | _codes(
        _C.QUOTA_EXHAUSTED,
        "insufficient_quota quota_exceeded billing_error billing_hard_limit_reached billing_not_active "
        "credit_balance_exhausted credit_balance_too_low insufficient_credits insufficient_balance budget_exceeded "
        "enforced_spend_limit_reached contract_spend_limit_reached linked_organization_spend_limit_reached "
        "linked_organization_billing_unavailable project_spend_limit_exceeded organization_spend_limit_exceeded "
        "organization_usage_limit_exceeded usage_limit_exceeded session_budget_exceeded usage_not_included "
        "storage_quota_exceeded servicequotaexceededexception limitexceededexception payment_required",
    )
    | _codes(
        _C.OVERLOADED,
        "overloaded_error overloaded server_overloaded server_is_overloaded engine_overloaded slow_down "
        "flex_unavailable resource_unavailable modelnotreadyexception nocapacity",
    )
)

_REFUSALS = (
    _codes(
        _C.AUTH,
        "authentication_error invalid_api_key api_key_invalid invalid_authentication unauthenticated unauthorized "
        "invalid_token access_token_expired "
        "expired_token token_expired expiredtoken expiredtokenexception unrecognizedclientexception "
        "invalidclienttokenid invalidsignatureexception signaturedoesnotmatch invalidaccesskeyid "
        "missingauthenticationtoken missingauthenticationtokenexception authfailure invalid_grant",
    )
    | _codes(
        _C.PERMISSION,
        "permission_error permission_denied access_denied accessdenied accessdeniedexception forbidden "
        "insufficient_permissions iam_permission_denied service_disabled unauthorizedoperation organization_on_hold "
        "unsupported_country_region_territory "
        "account_deactivated sandbox_egress_restricted",
    )
    | _codes(
        _C.POLICY_DENIED,
        "policy_denied content_filter content_filtered content_policy_violation responsibleaipolicyviolation "
        "image_content_policy_violation moderation_blocked refusal guardrail_intervened guardrail_violation "
        "prohibited_content bio_policy cyber_policy misalignment_policy_violation blocked_by_policy",
    )
    | _codes(
        _C.NOT_FOUND,
        "not_found not_found_error notfound notfounderror model_not_found modelnotfound deploymentnotfound "
        "resource_not_found resourcenotfound resourcenotfoundexception nosuchkey nosuchbucket thread_not_found "
        "user_profile_not_found jsonrpc_-32601 jsonrpc_-32002",
    )
)

_STATE = (
    _codes(
        _C.CONFLICT,
        "conflict conflict_error conflictexception aborted already_exists transactionconflictexception "
        "transactioninprogressexception concurrent_membership_change thread_continue_in_flight "
        "memory_path_conflict_error sqlite_busy sqlite_locked "
        "sqlstate_40 sqlstate_55p03",
    )
    | _codes(
        _C.IDEMPOTENCY_CONFLICT,
        "idempotency_conflict idempotency_error idempotency_key_in_use idempotency_key_reused idempotency_key_conflict "
        "idempotency_key_mismatch idempotency_mismatch idempotency_key_already_used duplicate_idempotency_key "
        "idempotentparametermismatch idempotentparametermismatchexception",
    )
    | _codes(
        _C.STALE_EVIDENCE,
        "evidence_stale stale_evidence evidence_expired precondition_failed preconditionfailed etag_mismatch "
        "conditionalcheckfailedexception memory_precondition_failed_error",
    )
)

_REQUESTS = (
    _codes(
        _C.CONTEXT_OVERFLOW,
        "context_length_exceeded context_window_exceeded model_context_window_exceeded exceed_context_size_error "
        "invalid_request_prompt_too_long context_overflow",
    )
    | _codes(
        _C.INVALID_REQUEST,
        "invalid_params request_too_large unsupported_parameter unsupported_value missing_required_parameter "
        "string_above_max_length unimplemented "
        "jsonrpc_-32700 jsonrpc_-32600 jsonrpc_-32602 sqlite_error sqlite_constraint sqlite_misuse sqlite_mismatch "
        "sqlite_range sqlstate_21 sqlstate_22 sqlstate_23 sqlstate_42",
    )
    | _codes(_C.PERMISSION, "sqlstate_42501 sqlite_readonly sqlite_auth sqlite_perm")
    | _codes(_C.SCHEMA_MISMATCH, "schema_mismatch")
    | _codes(_C.RESOURCE, "sqlite_full sqlite_nomem sqlite_ioerr sqlite_cantopen")
    | _codes(_C.AUTH, "sqlstate_28")
)

_SERVER = (
    _codes(
        _C.TIMEOUT,
        "timeout timeout_error request_timeout requesttimeout requesttimeoutexception modeltimeoutexception "
        "deadline_exceeded vector_store_timeout request_body_timeout jsonrpc_-32001 sqlstate_57014",
    )
    | _codes(_C.NETWORK, "jsonrpc_-32000 sqlstate_08 sqlstate_57p01 sqlstate_57p02 sqlstate_57p03 sqlstate_25006")
    | _codes(_C.OVERLOADED, "sqlstate_53300")
    | _codes(
        _C.SERVER_ERROR,
        "internalserverexception internalfailure modelerrorexception modelstreamerrorexception internal_error "
        "gateway_timeout grpc_unknown jsonrpc_-32603 sqlite_corrupt sqlstate_53 sqlstate_57 sqlstate_58 sqlstate_xx",
    )
    | _codes(_C.CANCELLED, "cancelled canceled")
)

CODES: dict[str, Category] = _CAPACITY | _REFUSALS | _STATE | _REQUESTS | _SERVER
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
    }


KINDS: dict[str, Category] = _kinds()
"""What an adapter may put into `error.kind`: a category, or one of the six verdicts."""

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


def category_of_code(code: str) -> Category | None:
    """What a code that names a cause says; codes of a numbering scheme are also looked up by their class."""
    found = CODES.get(code)
    if found is not None:
        return found
    if code.startswith("sqlstate_"):
        return CODES.get(code[: len("sqlstate_00")], _C.SERVER_ERROR)
    if code.startswith("sqlite_"):
        return CODES.get("_".join(code.split("_")[:2]))
    return None
