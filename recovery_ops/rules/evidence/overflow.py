"""Reads how many tokens a request had and how many it may have, from the error that refused it. Never guesses.

Each sentence is a vendor's own, whole and anchored at the start of the error's message: a prompt that is echoed in an
error cannot match. Counts that the vendor calls approximate ("about", "at least") make an overflow without counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recovery_ops.rules.patterns import compiled
from recovery_ops.rules.records import dataclass

_LONGEST_SENTENCE = 700
_MOST_TOKENS = 10**12


@dataclass(frozen=True, slots=True)
class Overflow:
    """Exact counts, in tokens; `available_tokens` is what is left for the answer, never below 0."""

    input_tokens: int
    limit_tokens: int
    available_tokens: int


def overflow_of(input_tokens: int, limit_tokens: int) -> Overflow:
    """The overflow of an input against a limit, both in tokens."""
    return Overflow(input_tokens, limit_tokens, max(0, limit_tokens - input_tokens))


# What libraries and gateways put before the sentence of the vendor.
_WRAPPER = compiled(
    r"(?:Error code: \d{3} - "
    r"|An error occurred \(\w+\) when calling the \w+ operation(?: \([^()]*\))?: "
    r"|The model returned the following errors: "
    r"|Failed to generate content: "
    r"|(?:litellm\.)?\w{0,60}(?:Error|Exception)(?:: | - )"
    r"|HTTP \d{3}(?: [A-Z][A-Za-z ]{0,30})?: "
    r"|\d{3}(?: [A-Z][A-Za-z ]{0,30}:)? "
    r"|b(?=['\"]\{))"
)
_MESSAGE_IN_JSON = compiled(r"""['"]?[\[{].{0,300}?\\*['"]message\\*['"]\s*:\s*\\*['"]""", re.DOTALL)


def unwrapped(message: str) -> str:
    """The vendor's own sentence, without what client libraries and gateways put in front of it (bounded)."""
    text = message[:4096].lstrip()
    for _ in range(6):
        wrapper = _WRAPPER.match(text) or _MESSAGE_IN_JSON.match(text)
        if wrapper is None:
            break
        text = text[wrapper.end() :].lstrip()
    return text[:_LONGEST_SENTENCE]


# One sentence a line, grouped by who says it. <input> and <limit> are the counts, <more> is a further part of the
# input, <n> is any other count; <window> is OpenAI's opening, which others took over.
_WINDOW = "This model's maximum context length is <limit> tokens"

_COUNTED_SENTENCES = """
# Anthropic, also through Bedrock and Vertex
prompt is too long: <input> tokens > <limit> maximum
input length and `max_tokens` exceed context limit: <input> + <n> > <limit>
# OpenAI, Azure, DeepSeek
<window>. However, your messages resulted in <input> tokens
<window>. However, you requested <n> tokens (<input> in the messages, <n> in the completion
<window>. However, you requested <n> tokens (<input> in the messages, <more> in the functions, and <n> in the completion
<window>, however you requested <n> tokens (<input> in your prompt
Input tokens exceed the configured limit of <limit> tokens. Your messages resulted in <input> tokens
# vLLM
<window>. However, your request has <input> input tokens
<window>. However, you requested <n> output tokens and your prompt contains <input> input tokens
'max_tokens' or 'max_completion_tokens' is too large: <n>. <window> and your request has <input> input tokens
You passed <input> input tokens and requested <n> output tokens. However, the model's context length is only <limit>
The decoder prompt (length <input>) is longer than the maximum model length of <limit>
The prompt (total length <input>) is too long to fit into the model (context length <limit>)
Prompt length of <input> is longer than the maximum model length of <limit>
# SGLang
Requested token count exceeds the model's maximum context length of <limit> tokens. <total> <input> tokens from
# Gemini, directly and through Vertex
The input token count (<input>) exceeds the maximum number of tokens allowed (<limit>)
Unable to submit request because the input token count is <input> but model only supports up to <limit>
# Mistral, old and new
Prompt contains <input> tokens and <n> draft tokens, too large for model with <limit> maximum context length
Prompt contains <input> tokens, too large for model with <limit> maximum context length
Prompt <input> > <limit> maximum context length
# Bedrock's own models
Too many input tokens. Max input tokens: <limit>, request input token count: <input>
# llama.cpp
request (<input> tokens) exceeds the available context size (<limit> tokens)
"""

_UNCOUNTED_SENTENCES = """
# Anthropic, Bedrock
Prompt is too long<end>
Input is too long for requested model
# OpenAI, Gemini
Your input exceeds the context window of this model
The input token count exceeds the maximum number of tokens allowed
Input tokens exceed the configured limit of <n> tokens
# counts that are lower bounds or estimates: vLLM, OpenRouter
<window>. However, you requested <n> output tokens and your prompt contains at least <n> input tokens
<window>. However, you requested <n> output tokens and your prompt contains <n> characters
<window>. However, you requested about <n> tokens
This endpoint's maximum context length is <n> tokens. However, you requested about <n> tokens
# llama.cpp
the request exceeds the available context size
"""

_COUNT = r"(?:\d{1,3}(?:,\d{3})+|\d{1,12})"
_PLACEHOLDER = compiled(r"<(\w+)>")
_PARTS = {
    "n": rf"{_COUNT}(?!\d)",
    "total": rf"You requested a total of {_COUNT} tokens:",
    "end": r"""[.\s]*(?:['"\\}]|$)""",
}


def _patterns(sentences: str) -> tuple[re.Pattern[str], ...]:
    """The sentences as patterns; apostrophes and backticks may have been lost or bent on the way."""
    lines = (line for line in sentences.replace("<window>", _WINDOW).splitlines() if line and not line.startswith("#"))
    escaped = (re.escape(line).replace("'", "['’]?").replace("`", "`?") for line in lines)
    return tuple(compiled(_PLACEHOLDER.sub(_part, line), re.IGNORECASE) for line in escaped)


def _part(placeholder: re.Match[str]) -> str:
    name = placeholder[1]
    return _PARTS.get(name) or rf"(?P<{name}>{_COUNT})(?!\d)"


_COUNTED = _patterns(_COUNTED_SENTENCES)
_UNCOUNTED = _patterns(_UNCOUNTED_SENTENCES)


def states_overflow(message: str) -> bool:
    """Whether the message is a vendor's sentence about a full context."""
    sentence = unwrapped(message)
    return _counted(sentence) is not None or any(pattern.match(sentence) for pattern in _UNCOUNTED)


def counts_in(message: str, body: Mapping[str, object] | None) -> Overflow | None:
    """The exact counts: from fields of the structured error where it has them, otherwise from the vendor's sentence."""
    return counts_in_body(body) or _counted(unwrapped(message))


def _counted(sentence: str) -> Overflow | None:
    if not any(word in sentence for word in ("token", "Token", "TOKEN", "context", "model length")):
        return None
    for pattern in _COUNTED:
        found = pattern.match(sentence)
        if found is not None:
            counts = found.groupdict(default="0")
            asked = _whole(counts["input"]) + _whole(counts.get("more", "0"))
            return overflow_of(asked, _whole(counts["limit"]))
    return None


_INPUT_FIELDS = ("input_tokens", "n_prompt_tokens", "prompt_tokens", "input_token_count")
_LIMIT_FIELDS = ("limit_tokens", "n_ctx", "context_limit", "context_window", "context_length", "max_context_tokens")


def counts_in_body(body: Mapping[str, object] | None) -> Overflow | None:
    """Counts that the error carries as fields, in `error` or in `error.details`."""
    if body is None:
        return None
    error = body.get("error")
    for part in (error, error.get("details") if isinstance(error, dict) else None, body):
        if isinstance(part, dict):
            asked, limit = _field(part, _INPUT_FIELDS), _field(part, _LIMIT_FIELDS)
            if asked is not None and limit is not None:
                return overflow_of(asked, limit)
    return None


def _field(part: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = part.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return value
    return None


def _whole(digits: str) -> int:
    return int(digits.replace(",", ""))
