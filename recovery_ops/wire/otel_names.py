"""Names of plain OpenTelemetry instrumentation that we read and never write, with the older spellings still in use.

Each tuple lists the spellings of one meaning, the current one first.
"""

from __future__ import annotations

EXCEPTION_EVENT = "exception"
EXCEPTION_EVENTS = (EXCEPTION_EVENT, "gen_ai.client.operation.exception")
"""Events of a span that tell of an exception; the second is also the event name of a log record."""
RETRY_EVENTS = ("gen_ai.retry", "model_retry", "retry")
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_PREFIX = "exception."
ERROR_TYPE = "error.type"
EXCEPTIONS = (EXCEPTION_TYPE, EXCEPTION_MESSAGE)
ERROR_MESSAGE = "error.message"

HTTP_STATUS = ("http.response.status_code", "http.status_code")
HTTP_METHOD = ("http.request.method", "http.method")
HTTP_RESENDS = ("http.request.resend_count", "http.resend_count")
HTTP_HEADER_PREFIX = "http.response.header."
HTTP_URL = ("url.full", "http.url")
SERVER = ("server.address", "net.peer.name", "http.host", "peer.service")
RPC_STATUS = ("rpc.grpc.status_code", "rpc.response.status_code")
DB_STATUS = ("db.response.status_code",)

PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider")
REGION = ("cloud.region",)
"""On a span: where what was called stands. `server.address` is a machine, not a region."""
REQUEST_MODEL = (
    *("gen_ai.request.model", "llm.request.model", "llm.model_name", "embedding.model_name", "reranker.model_name"),
    "ai.model.id",
)
RESPONSE_MODEL = ("gen_ai.response.model", "llm.response.model", "ai.response.model")
REQUEST_PARAMETERS = "llm.invocation_parameters"
"""JSON text of OpenInference; its `model` was asked for, and `llm.model_name` answered."""
ANSWERING_MODEL = "llm.model_name"
RESPONSE_STATUS = ("gen_ai.response.status",)
FINISH_REASONS = ("gen_ai.response.finish_reasons", "llm.response.finish_reason")
TOOL = ("gen_ai.tool.name", "tool.name", "mcp.tool.name", "tool_call.function.name", "ai.toolCall.name")
AGENT = ("gen_ai.agent.name", "agent.name")
CALL = ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id")
ATTEMPT = ("gen_ai.retry.attempt", "retry.attempt", "attempt", "attempt_number")
"""On the event of a retry."""
RETRY_DELAY_S = ("gen_ai.retry.delay", "retry.delay", "retry_delay", "delay")
KIND_OF_WORK = ("gen_ai.operation.name",)
OTHER_KINDS = ("openinference.span.kind", "traceloop.span.kind", "llm.request.type", "ai.operationId")
"""What other conventions call the kind of work, in words of their own."""
ENTITY = ("traceloop.entity.name",)
"""Name of the tool where the kind of work is a tool's."""
CONVERSATION = (
    *("session.id", "gen_ai.conversation.id", "langgraph.thread_id", "langfuse.session.id"),
    *("langsmith.trace.session_id", "langsmith.metadata.session_id", "langsmith.metadata.thread_id"),
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.session.id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.thread_id",
    *("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.session.id", "conversation.id"),
)
INPUT_TOKENS = (
    *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.promptTokens"),
    "ai.usage.tokens",
)
OUTPUT_TOKENS = (
    *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "ai.usage.completionTokens",
)

CONTAINERS = frozenset({"invoke_agent", "create_agent", "invoke_workflow", "plan"})
"""Kinds of work that consist of others: what fails in them is one of those."""

READ = frozenset(
    {
        *(EXCEPTION_TYPE, EXCEPTION_MESSAGE, ERROR_TYPE, ERROR_MESSAGE),
        *(*HTTP_STATUS, *HTTP_METHOD, *HTTP_RESENDS, *HTTP_URL, *SERVER, *RPC_STATUS, *DB_STATUS),
        *(*PROVIDER, *REGION, *REQUEST_MODEL, *RESPONSE_MODEL, *TOOL, *AGENT, *CALL, *ATTEMPT, *RETRY_DELAY_S),
        *(REQUEST_PARAMETERS, *RESPONSE_STATUS, *FINISH_REASONS, *ENTITY),
        *(*KIND_OF_WORK, *OTHER_KINDS, *CONVERSATION, *INPUT_TOKENS, *OUTPUT_TOKENS),
    }
)
"""All of these names; of others nothing is read but the headers of an answer."""
