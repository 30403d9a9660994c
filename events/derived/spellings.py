"""Words of different conventions for one thing: the kind of work, and who provides a model."""

from __future__ import annotations

_AGENT, _WORKFLOW, _CHAT, _EMBED, _TOOL = "invoke_agent", "invoke_workflow", "chat", "embeddings", "execute_tool"
KINDS_OF_WORK: dict[str, str] = {
    # OpenInference; without regard to case
    **dict.fromkeys(("llm", "prompt"), _CHAT),
    "embedding": _EMBED,
    "tool": _TOOL,
    "agent": _AGENT,
    "retriever": "retrieval",
    "reranker": "rerank",
    **dict.fromkeys(("chain", "guardrail", "evaluator"), _WORKFLOW),
    # OpenLLMetry
    **dict.fromkeys(("workflow", "task"), _WORKFLOW),
    "chat": _CHAT,
    "completion": "text_completion",
    "rerank": "rerank",
    # Vercel AI SDK: the outer span of a call, and the request in it
    **dict.fromkeys(("ai.generatetext", "ai.streamtext", "ai.generateobject", "ai.streamobject"), _WORKFLOW),
    **dict.fromkeys(("ai.embed", "ai.embedmany"), _WORKFLOW),
    **dict.fromkeys(("ai.generatetext.dogenerate", "ai.streamtext.dostream"), _CHAT),
    **dict.fromkeys(("ai.generateobject.dogenerate", "ai.streamobject.dostream"), _CHAT),
    **dict.fromkeys(("ai.embed.doembed", "ai.embedmany.doembed"), _EMBED),
    "ai.toolcall": _TOOL,
}
"""Kind of work in words of other conventions, lower case → as OpenTelemetry says it."""

PROVIDERS: dict[str, str] = {
    spelling: name
    for name, spellings in {
        "openai": "openai",
        "azure.ai.openai": "azure az.ai.openai azure.ai.openai azure_openai azure-openai azure.openai azureopenai",
        "azure.ai.inference": "az.ai.inference azure.ai.inference azure_ai azure-ai",
        "anthropic": "anthropic claude",
        "aws.bedrock": "aws aws.bedrock aws_bedrock bedrock bedrock_converse amazon_bedrock amazon-bedrock"
        " amazon.bedrock",
        "gcp.vertex_ai": "vertex_ai vertexai vertex gcp.vertex_ai vertex_ai_beta google.vertex google-vertex"
        " google_vertexai google_vertex google_anthropic_vertex",
        "gcp.gemini": "gemini gcp.gemini google-gla google.generative-ai google_genai google-generativeai"
        " google_generativeai google_ai_studio",
        "gcp.gen_ai": "google gcp.gen_ai gen_ai google.gen_ai",
        "mistral_ai": "mistral mistralai mistral_ai mistral-ai",
        "x_ai": "xai x_ai x-ai",
        "ibm.watsonx.ai": "watsonx ibm.watsonx.ai",
        "cohere": "cohere cohere_chat",
        "together_ai": "together together_ai togetherai",
        "fireworks_ai": "fireworks fireworks_ai",
        "hugging_face": "huggingface hugging_face",
        **{one: one for one in ("deepseek", "groq", "perplexity", "ollama", "openrouter", "replicate")},
    }.items()
    for spelling in spellings.split()
}
"""Spelling of a provider, lower case → the name that OpenTelemetry gives it, where it gives one."""
