"""The codes and the sentences of vendors and gateways: one row for each, with its source. The only table of them.

Agents and the server's derivation from plain telemetry read the same rows. To add a vendor or a text:

1. Add the code or the sentence to the vendor's row, under the category that it means. A code stands in its normal form
   (`codes.normal_code`). A code that names a cause beats the HTTP status, so leave codes out that mean several things.
2. A sentence begins where the vendor's own message begins; what clients put in front of it is taken off before. Write
   `<any>` for up to 160 characters, `<n>` for a number, `<end>` for the end of the message. Counts of an overflow are
   `<input>`, `<more>` (a further part of the input) and `<limit>`, in tokens, exact and never estimated.
3. Put `source` and `checked` right; `is_observed` is True where an answer was recorded and not only documented.
4. Add the whole answer to `tests/payloads/vendors/<vendor>.json`, and a near miss beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from recovery_ops.rules.enums import Category

_C = Category
_NONE: Mapping[Category, str] = MappingProxyType({})
_CHECKED = "2026-11-28"


class Vendor(NamedTuple):
    """What one vendor sends. `codes`: words by category; `sentences`: one a line, by category."""

    name: str
    source: str
    codes: Mapping[Category, str] = _NONE
    sentences: Mapping[Category, str] = _NONE
    checked: str = _CHECKED
    is_observed: bool = False


_WINDOW = "This model's maximum context length is <limit> tokens"
_TOTAL = "You requested a total of <n> tokens:"
_LENGTH = "the model's context length"
_ENDPOINT = "This endpoint's maximum context length is <limit> tokens"

VENDORS: tuple[Vendor, ...] = (
    Vendor(
        "OpenAI",
        source="https://platform.openai.com/docs/guides/error-codes",
        is_observed=True,
        codes={
            _C.RATE_LIMITED: "rate_limit_exceeded rate_limit_reached",
            _C.RATE_LIMIT_WINDOW: "usage_limit_reached",
            _C.QUOTA_EXHAUSTED: "insufficient_quota billing_hard_limit_reached billing_not_active "
            "project_spend_limit_exceeded organization_spend_limit_exceeded organization_usage_limit_exceeded "
            "usage_not_included",
            _C.OVERLOADED: "server_overloaded server_is_overloaded engine_overloaded slow_down flex_unavailable "
            "resource_unavailable",
            _C.AUTH: "invalid_api_key",
            _C.PERMISSION: "unsupported_country_region_territory account_deactivated insufficient_permissions",
            _C.NOT_FOUND: "model_not_found thread_not_found",
            _C.CONTENT_REFUSED: "content_filter content_policy_violation image_content_policy_violation "
            "moderation_blocked bio_policy cyber_policy misalignment_policy_violation",
            _C.CONTEXT_OVERFLOW: "context_length_exceeded",
            _C.INVALID_REQUEST: "unsupported_parameter unsupported_value missing_required_parameter "
            "string_above_max_length",
            _C.TIMEOUT: "vector_store_timeout request_body_timeout",
        },
        sentences={
            _C.CONTEXT_OVERFLOW: f"""
                {_WINDOW}. However, your messages resulted in <input> tokens
                {_WINDOW}. However, you requested <n> tokens (<input> in the messages, <n> in the completion
                {_WINDOW}. However, you requested <n> tokens (<input> in the messages, <more> in the functions, and <n>
                {_WINDOW}, however you requested <n> tokens (<input> in your prompt
                Input tokens exceed the configured limit of <limit> tokens. Your messages resulted in <input> tokens
                Input tokens exceed the configured limit of <n> tokens
                Your input exceeds the context window of this model
            """,
            _C.INVALID_REQUEST: "Request too large for <any> on <any>per min",
            _C.RATE_LIMIT_WINDOW: "Rate limit reached for <any> on <any>per day",
            _C.RATE_LIMITED: "Rate limit reached for <any> on <any>per min",
            _C.AUTH: "Incorrect API key provided",
            _C.NOT_FOUND: "The model `<any>` does not exist",
            _C.CONTENT_REFUSED: """
                your prompt was flagged as potentially violating our usage policy
                Invalid prompt: your prompt was flagged as potentially violating our usage policy
                Your request was rejected as a result of our safety system
                Your request was rejected by the safety system
            """,
        },
    ),
    Vendor(
        "Azure OpenAI",
        source="https://learn.microsoft.com/azure/ai-foundry/openai/how-to/content-filter",
        is_observed=True,
        codes={
            _C.RATE_LIMITED: "ratelimitreached ratelimitexceeded",
            _C.OVERLOADED: "nocapacity",
            _C.NOT_FOUND: "deploymentnotfound",
            _C.CONTENT_REFUSED: "content_filtered responsibleaipolicyviolation",
        },
        sentences={
            _C.RATE_LIMIT_WINDOW: "Out of call volume quota",
            _C.RATE_LIMITED: "Requests to the <any> have exceeded <any>rate limit\nRate limit is exceeded",
            _C.AUTH: "Access denied due to invalid subscription key or wrong API endpoint",
            _C.PERMISSION: "Access denied due to Virtual Network/Firewall rules",
            _C.NOT_FOUND: "The API deployment for this resource does not exist",
            _C.CONTENT_REFUSED: "The response was filtered due to the prompt triggering <any>content management policy",
        },
    ),
    Vendor(
        "Anthropic",
        source="https://docs.claude.com/en/api/errors",
        is_observed=True,
        codes={
            _C.RATE_LIMITED: "rate_limit_error ramp_limit_exceeded",
            _C.QUOTA_EXHAUSTED: "billing_error credit_balance_exhausted credit_balance_too_low "
            "enforced_spend_limit_reached contract_spend_limit_reached linked_organization_spend_limit_reached "
            "linked_organization_billing_unavailable session_budget_exceeded usage_limit_exceeded",
            _C.OVERLOADED: "overloaded_error",
            _C.AUTH: "authentication_error",
            _C.PERMISSION: "permission_error organization_on_hold sandbox_egress_restricted",
            _C.NOT_FOUND: "not_found_error user_profile_not_found",
            _C.CONTENT_REFUSED: "refusal",
            _C.CONFLICT: "conflict_error concurrent_membership_change thread_continue_in_flight "
            "memory_path_conflict_error",
            _C.STALE_EVIDENCE: "memory_precondition_failed_error",
            _C.CONTEXT_OVERFLOW: "model_context_window_exceeded invalid_request_prompt_too_long",
            _C.INVALID_REQUEST: "request_too_large",
            _C.TIMEOUT: "timeout_error",
        },
        sentences={
            _C.CONTEXT_OVERFLOW: """
                prompt is too long: <input> tokens > <limit> maximum
                input length and `max_tokens` exceed context limit: <input> + <n> > <limit>
                Prompt is too long<end>
            """,
            _C.RATE_LIMITED: """
                This request would exceed <any>input tokens per minute
                You have exceeded <any>input tokens per minute
                This request would exceed <any>rate limit
            """,
            _C.RATE_LIMIT_WINDOW: """
                Claude AI usage limit reached
                Claude usage limit reached
                5-hour limit reached
                Number of request tokens has exceeded your daily rate limit
                Number of requests has exceeded your daily rate limit
            """,
            _C.INVALID_REQUEST: "Extra usage is required for long context requests",
            _C.QUOTA_EXHAUSTED: """
                Your credit balance is too low to access the Anthropic API
                Your credit balance is too low to access the Claude API
                You have reached your specified API usage limits
            """,
            _C.OVERLOADED: "Overloaded<end>",
            _C.CONTENT_REFUSED: "Output blocked by content filtering policy",
        },
    ),
    Vendor(
        "Amazon Bedrock",
        source="https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html",
        is_observed=True,
        codes={
            _C.RATE_LIMITED: "throttling throttlingexception throttledexception throttled requestthrottled "
            "requestthrottledexception toomanyrequestsexception provisionedthroughputexceededexception "
            "requestlimitexceeded slowdown bandwidthlimitexceeded priorrequestnotcomplete ec2throttledexception",
            _C.QUOTA_EXHAUSTED: "servicequotaexceededexception limitexceededexception",
            _C.OVERLOADED: "modelnotreadyexception",
            _C.AUTH: "expired_token expiredtoken expiredtokenexception unrecognizedclientexception "
            "invalidclienttokenid invalidsignatureexception signaturedoesnotmatch invalidaccesskeyid "
            "missingauthenticationtoken missingauthenticationtokenexception authfailure",
            _C.PERMISSION: "accessdenied accessdeniedexception unauthorizedoperation",
            _C.POLICY_DENIED: "guardrail_intervened",
            _C.NOT_FOUND: "resourcenotfoundexception nosuchkey nosuchbucket",
            _C.CONFLICT: "conflictexception transactionconflictexception transactioninprogressexception",
            _C.IDEMPOTENCY_CONFLICT: "idempotentparametermismatch idempotentparametermismatchexception",
            _C.STALE_EVIDENCE: "conditionalcheckfailedexception",
            _C.TIMEOUT: "requesttimeout requesttimeoutexception modeltimeoutexception",
            _C.SERVER_ERROR: "internalserverexception internalfailure modelerrorexception modelstreamerrorexception",
        },
        sentences={
            _C.CONTEXT_OVERFLOW: """
                Too many input tokens. Max input tokens: <limit>, request input token count: <input>
                prompt tokens (<input>) exceed model maximum (<limit>)
                Input is too long for requested model
            """,
            _C.RATE_LIMITED: """
                Too many tokens, please wait
                Too many input tokens, please wait
                Too many requests, please wait
            """,
            _C.RATE_LIMIT_WINDOW: """
                Too many tokens per day
                Too many requests per day
            """,
            _C.OVERLOADED: "Too many connections, please wait",
            _C.NOT_FOUND: """
                The provided model identifier is invalid
                This model version has reached the end of its life
            """,
            _C.PERMISSION: "You don't have access to the model with the specified model ID",
        },
    ),
    Vendor(
        "Gemini and Vertex AI",
        source="https://ai.google.dev/gemini-api/docs/troubleshooting",
        is_observed=True,
        codes={
            _C.RATE_LIMITED: "resource_exhausted",
            _C.QUOTA_EXHAUSTED: "billing_disabled",
            _C.AUTH: "unauthenticated api_key_invalid access_token_expired invalid_grant",
            _C.PERMISSION: "permission_denied service_disabled iam_permission_denied",
            _C.CONTENT_REFUSED: "prohibited_content",
            _C.CONFLICT: "aborted already_exists",
            _C.INVALID_REQUEST: "unimplemented",
            _C.TIMEOUT: "deadline_exceeded",
            _C.CANCELLED: "cancelled canceled",
        },
        sentences={
            _C.CONTEXT_OVERFLOW: """
                The input token count (<input>) exceeds the maximum number of tokens allowed (<limit>)
                Unable to submit request because the input token count is <input> but model only supports up to <limit>
                The input token count exceeds the maximum number of tokens allowed
            """,
            _C.RATE_LIMITED: """
                Resource has been exhausted (e.g. check quota)
                Resource exhausted. Please try again later
                Quota exceeded for <any>per_minute
            """,
            _C.QUOTA_EXHAUSTED: "This API method requires billing to be enabled",
            _C.OVERLOADED: "The model is overloaded",
            _C.AUTH: "API key not valid. Please pass a valid API key\nAPI key expired. Please renew the API key",
            _C.PERMISSION: "User location is not supported for the API use",
            _C.NOT_FOUND: "Publisher Model `<any>` was not found\nmodels/<any> is not found for API version",
        },
    ),
    Vendor(
        "Mistral",
        source="https://docs.mistral.ai/api/",
        is_observed=True,
        codes={
            _C.RATE_LIMITED: "rate_limited service_tier_capacity_exceeded",
            _C.NOT_FOUND: "invalid_model",
        },
        sentences={
            _C.CONTEXT_OVERFLOW: """
                Prompt contains <input> tokens and <n> draft tokens, too large for model with <limit> maximum
                Prompt contains <input> tokens, too large for model with <limit> maximum context length
                Prompt <input> > <limit> maximum context length
            """,
            _C.RATE_LIMITED: "Requests rate limit exceeded\nService tier capacity exceeded for this model",
            _C.NOT_FOUND: "Invalid model: ",
        },
    ),
    Vendor(
        "Cohere",
        source="https://docs.cohere.com/reference/errors",
        sentences={
            _C.CONTEXT_OVERFLOW: """
                too many tokens: total number of tokens in the prompt cannot exceed <limit> - received <input>
                too many tokens: total number of tokens in the prompt cannot exceed
                too many tokens: size limit exceeded by <n> tokens
                too many tokens: minimal context could not be added to prompt
            """,
            _C.RATE_LIMIT_WINDOW: "You are using a Trial key, which is limited to <n> API calls / month",
            _C.RATE_LIMITED: "You are using a Trial key, which is limited to <n> API calls / minute",
            _C.AUTH: "invalid api token\nno api key supplied",
            _C.NOT_FOUND: "model '<any>' not found",
        },
    ),
    Vendor(
        "Groq",
        source="https://console.groq.com/docs/errors",
        codes={
            _C.QUOTA_EXHAUSTED: "blocked_api_access",
            _C.OVERLOADED: "capacity_exceeded",
            _C.NOT_FOUND: "model_decommissioned",
            _C.MODEL_OUTPUT: "tool_use_failed json_validate_failed",
        },
        sentences={
            _C.CONTEXT_OVERFLOW: "Please reduce the length of the messages or completion",
            _C.INVALID_REQUEST: "Request too large for model <any>",
            _C.RATE_LIMIT_WINDOW: "Rate limit reached for model <any>per day",
            _C.RATE_LIMITED: "Rate limit reached for model <any>per minute",
        },
    ),
    Vendor(
        "xAI",
        source="https://docs.x.ai/docs/key-information/debugging",
        sentences={
            _C.CONTEXT_OVERFLOW: (
                "This model's maximum prompt length is <limit> but the request contains <input> tokens"
            ),
            _C.QUOTA_EXHAUSTED: """
                Your team has either used all available credits or reached its monthly spending limit
                Your team <any> has either used all available credits or reached its monthly spending limit
            """,
            _C.RATE_LIMITED: "Too many requests for team\nToo many tokens for team",
            _C.NOT_FOUND: "The model <any> does not exist or your team",
            _C.CONTENT_REFUSED: "Content violates usage guidelines",
        },
    ),
    Vendor(
        "DeepSeek",
        source="https://api-docs.deepseek.com/quick_start/error_codes",
        codes={_C.QUOTA_EXHAUSTED: "insufficient_balance"},
        sentences={
            _C.QUOTA_EXHAUSTED: "Insufficient Balance",
            _C.OVERLOADED: "Service is too busy",
            _C.AUTH: "Authentication Fails",
            _C.NOT_FOUND: "Model Not Exist",
            _C.CONTENT_REFUSED: "Content Exists Risk",
        },
    ),
    Vendor(
        "Together",
        source="https://docs.together.ai/docs/error-codes",
        codes={_C.NOT_FOUND: "model_not_available"},
        sentences={
            _C.CONTEXT_OVERFLOW: "The input (<input> tokens) is longer than the model's context length (<limit>",
            _C.RATE_LIMITED: "You have reached the rate limit specific to this model",
            _C.QUOTA_EXHAUSTED: "Credit limit exceeded",
            _C.NOT_FOUND: "Unable to access model ",
        },
    ),
    Vendor(
        "OpenRouter",
        source="https://openrouter.ai/docs/api-reference/errors",
        is_observed=True,
        codes={_C.QUOTA_EXHAUSTED: "insufficient_credits"},
        sentences={
            _C.CONTEXT_OVERFLOW: f"""
                {_ENDPOINT}. However, you requested about <n> tokens (<input> of text input, <n> in the output
                {_ENDPOINT}. However, you requested about <n> tokens (<input> of text input, <more> of tool
                {_ENDPOINT}. However, you requested about <n> tokens
                Input length <input> exceeds the maximum allowed input length of <limit> tokens
            """,
            _C.RATE_LIMIT_WINDOW: "Rate limit exceeded: free-models-per-day",
            _C.RATE_LIMITED: "Rate limit exceeded: free-models-per-min",
            _C.QUOTA_EXHAUSTED: "Insufficient credits\nThis request requires more credits\nKey limit exceeded (",
            _C.AUTH: "No auth credentials found\nNo cookie auth credentials found",
            _C.NOT_FOUND: "<any> is not a valid model ID\nNo endpoints found for ",
            _C.CONTENT_REFUSED: "<any> requires moderation on <any>Your input was flagged",
        },
    ),
    Vendor(
        "vLLM and SGLang",
        source="https://github.com/vllm-project/vllm",
        is_observed=True,
        sentences={
            _C.CONTEXT_OVERFLOW: f"""
                {_WINDOW}. However, your request has <input> input tokens
                {_WINDOW}. However, you requested <n> output tokens and your prompt contains <input> input tokens
                {_WINDOW}. However, you requested <input> tokens in the
                'max_tokens' or 'max_completion_tokens' is too large: <n>. {_WINDOW} and your request has <input>
                You passed <input> input tokens and requested <n> output tokens. However, {_LENGTH} is only <limit>
                The decoder prompt (length <input>) is longer than the maximum model length of <limit>
                The prompt (length <input>) is longer than the maximum model length of <limit>
                The prompt (total length <input>) is too long to fit into the model (context length <limit>)
                Prompt length of <input> is longer than the maximum model length of <limit>
                The engine prompt length <input> exceeds the max_model_len <limit>
                Input length (<input>) exceeds model's maximum context length (<limit>)
                Input length (<input> tokens) exceeds the maximum allowed length (<limit> tokens)
                Requested token count exceeds the model's maximum context length of <limit> tokens. {_TOTAL} <input>
                {_WINDOW}. However, you requested <n> output tokens and your prompt contains at least <n> input tokens
                {_WINDOW}. However, you requested <n> output tokens and your prompt contains <n> characters
                {_WINDOW}. However, you requested about <n> tokens
                You passed <n> input characters and requested <n> output tokens. However, the model's
                Requested token count exceeds the model's maximum context length of <n>
            """,
        },
    ),
    Vendor(
        "TGI",
        source="https://huggingface.github.io/text-generation-inference/",
        codes={_C.SERVER_ERROR: "generation incomplete_generation"},
        sentences={
            _C.CONTEXT_OVERFLOW: """
                Input validation error: `inputs` tokens + `max_new_tokens` must be <= <limit>. Given: <input> `inputs`
                Input validation error: `inputs` must have less than <limit> tokens. Given: <input>
            """,
            _C.OVERLOADED: "Model is overloaded\nModel <any> is currently loading",
        },
    ),
    Vendor(
        "Ollama",
        source="https://docs.ollama.com/api/errors",
        sentences={
            _C.CONTEXT_OVERFLOW: """
                the input length exceeds the context length
                input length exceeds maximum context length
                prompt too long; exceeded max context length
                the prompt is longer than the context length currently available
            """,
            _C.OVERLOADED: "server busy, please try again",
            _C.RATE_LIMIT_WINDOW: """
                you've reached your <any> usage limit,
                you (<any>) have reached your <any> usage limit,
            """,
            _C.NOT_FOUND: 'model "<any>" not found',
        },
    ),
    Vendor(
        "llama.cpp",
        source="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        is_observed=True,
        codes={_C.CONTEXT_OVERFLOW: "exceed_context_size_error"},
        sentences={
            _C.CONTEXT_OVERFLOW: """
                request (<input> tokens) exceeds the available context size (<limit> tokens)
                input (<input> tokens) is larger than the max context size (<limit> tokens)
                the request exceeds the available context size
                input is larger than the max context size
                Trying to keep the first <n> tokens when context the overflows
            """,
            _C.OVERLOADED: "Loading model<end>",
        },
    ),
    Vendor(
        "LiteLLM",
        source="https://docs.litellm.ai/docs/exception_mapping",
        codes={
            _C.RATE_LIMITED: "ratelimiterror throttling_error",
            _C.QUOTA_EXHAUSTED: "budget_exceeded budgetexceedederror",
            _C.AUTH: "authenticationerror",
            _C.PERMISSION: "permissiondeniederror",
            _C.NOT_FOUND: "notfounderror",
            _C.CONTEXT_OVERFLOW: "contextwindowexceedederror",
            _C.CONTENT_REFUSED: "contentpolicyviolationerror",
            _C.POLICY_DENIED: "guardrail_violation",
        },
        sentences={
            _C.RATE_LIMITED: "No deployments available for selected model",
            _C.QUOTA_EXHAUSTED: "Budget has been exceeded!\nExceededBudget: ",
            _C.NOT_FOUND: "Invalid model name passed in \n/<any>: Invalid model name passed in ",
        },
    ),
    Vendor(
        "Stripe and others with keys",
        source="https://docs.stripe.com/error-codes",
        codes={
            _C.IDEMPOTENCY_CONFLICT: "idempotency_conflict idempotency_error idempotency_key_in_use "
            "idempotency_key_reused idempotency_mismatch duplicate_idempotency_key duplicate_request_id",
        },
    ),
    Vendor(
        "GitHub",
        source="https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api",
        sentences={_C.RATE_LIMITED: "You have exceeded a secondary rate limit\nAPI rate limit exceeded for "},
    ),
    Vendor(
        "MCP servers",
        source="https://modelcontextprotocol.io/specification/2025-11-25/basic/transports",
        sentences={
            _C.NETWORK: """
                Session terminated<end>
                Session not found<end>
                Session expired<end>
                Session has been terminated
                Invalid or expired session
                Connection closed<end>
            """,
        },
    ),
)


def codes_of_vendors() -> dict[str, Category]:
    """Every code of the table."""
    return {code: category for vendor in VENDORS for category, words in vendor.codes.items() for code in words.split()}


def sentences_for(category: Category) -> tuple[str, ...]:
    """The sentences of every vendor that mean this category, in the order of the table."""
    return tuple(
        line.strip() for vendor in VENDORS for line in vendor.sentences.get(category, "").splitlines() if line.strip()
    )
