"""Names of plain OpenTelemetry instrumentation that we read and never write, with the older spellings still in use.

Each tuple lists the spellings of one meaning, the current one first.
"""

from __future__ import annotations

EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_PREFIX = "exception."
ERROR_TYPE = "error.type"

HTTP_STATUS = ("http.response.status_code", "http.status_code")
HTTP_METHOD = ("http.request.method", "http.method")
HTTP_RESENDS = ("http.request.resend_count", "http.resend_count")
HTTP_HEADER_PREFIX = "http.response.header."
SERVER = ("server.address", "net.peer.name", "http.host", "peer.service")
RPC_STATUS = ("rpc.grpc.status_code", "rpc.response.status_code")
DB_STATUS = ("db.response.status_code",)

PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider")
REGION = ("cloud.region",)
"""On a span: where what was called stands. `server.address` is a machine, not a region."""
REQUEST_MODEL = ("gen_ai.request.model", "llm.request.model", "llm.model_name")
RESPONSE_MODEL = ("gen_ai.response.model", "llm.response.model")
TOOL = ("gen_ai.tool.name", "tool.name", "mcp.tool.name")
AGENT = ("gen_ai.agent.name",)
CALL = ("gen_ai.tool.call.id",)
KIND_OF_WORK = ("gen_ai.operation.name",)
CONVERSATION = ("session.id", "gen_ai.conversation.id")
INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")

CONTAINERS = frozenset({"invoke_agent", "create_agent", "invoke_workflow", "plan"})
"""Kinds of work that consist of others: what fails in them is one of those."""

READ = frozenset(
    {
        *(EXCEPTION_TYPE, EXCEPTION_MESSAGE, ERROR_TYPE),
        *(*HTTP_STATUS, *HTTP_METHOD, *HTTP_RESENDS, *SERVER, *RPC_STATUS, *DB_STATUS),
        *(*PROVIDER, *REGION, *REQUEST_MODEL, *RESPONSE_MODEL, *TOOL, *AGENT, *CALL),
        *(*KIND_OF_WORK, *CONVERSATION, *INPUT_TOKENS, *OUTPUT_TOKENS),
    }
)
"""All of these names; of others nothing is read but the headers of an answer."""
