"""What a message says, as the last resort: whole sentences of vendors, anchored, never words found somewhere in a text.

Two uses. `category_of_refusal` refines a 400 whose cause the vendor tells in words alone. `category_of_message` is for
an error that has neither a known type nor a code nor a status.
"""

from __future__ import annotations

import re

from recovery_ops.rules.evidence.codes import category_of_status
from recovery_ops.rules.evidence.overflow import states_overflow, unwrapped
from recovery_ops.rules.patterns import compiled
from recovery_ops.rules.words import Category


def _any_of(lines: str) -> str:
    return "|".join(line.strip() for line in lines.strip().splitlines())


_C = Category

_REFUSALS: dict[Category, re.Pattern[str]] = {
    category: compiled(_any_of(lines))
    for category, lines in {
        # Anthropic tells these under `invalid_request_error`, OpenAI the last one under `invalid_prompt`; gateways pass
        # rate limits of tokens on as a 400.
        _C.RATE_LIMITED: r"""
            Too many (?:input )?tokens, please wait\b
            (?:This request would exceed|You have exceeded) [^\n]{0,120}\binput tokens per minute\b
        """,
        _C.QUOTA_EXHAUSTED: r"""
            Your credit balance is too low to access the (?:Anthropic|Claude) API\b
            You have reached your specified API usage limits\b
        """,
        _C.POLICY_DENIED: r"""
            Output blocked by content filtering policy\b
            (?:Invalid prompt: )?[Yy]our prompt was flagged as potentially violating our usage policy\b
        """,
    }.items()
}


def category_of_refusal(message: str) -> Category | None:
    """What a 400 or 413 is about by the vendor's own sentence: a full context, an empty purse, a content filter."""
    if states_overflow(message):
        return _C.CONTEXT_OVERFLOW
    sentence = unwrapped(message)
    return next((category for category, pattern in _REFUSALS.items() if pattern.match(sentence)), None)


_SAYS_OVERLOAD = compiled(
    r"(?:\A|[.:] )(?:The |That |This |Our )?(?:model|engine|servers?|service)?(?: is| are)?(?: currently| temporarily)*"
    r" ?(?:overloaded|at capacity|over capacity|experiencing high demand)\b",
    re.IGNORECASE,
)


def says_overload(message: str) -> bool:
    """Whether the message of a 503 speaks of overload."""
    return _SAYS_OVERLOAD.search(unwrapped(message)[:300]) is not None


# In front of the sentence may stand who says it, at most twice ("Error: cannot access host: connection timed out");
# after it, the end of the message or of the clause.
_LEAD = r"\A(?:(?:(?!: )[^\n]){0,160}: ){0,2}(?:\[Errno -?\d{1,5}\] )?"
_END = r"(?:[.!]?\s*\Z|[.,;] | \()"

_MESSAGES: dict[Category, re.Pattern[str]] = {
    category: compiled(f"{_LEAD}(?:{_any_of(lines)}){_END}", re.IGNORECASE)
    for category, lines in {
        _C.TIMEOUT: r"""
            (?:the )?(?:(?:connection|connect|read|write|request|operation|query|call)(?: has)? )?timed out
            (?:(?:connection|connect|read|request|gateway) )?timeout
            (?:timed out|timeout) (?:after|while|waiting|connecting) [^\n]{1,80}
            deadline exceeded
            ETIMEDOUT
        """,
        _C.NETWORK: r"""
            connection (?:was |has been )?(?:refused|reset|reset by peer|aborted|broken|lost|closed)
            (?:remote end|peer|server) (?:closed|disconnected)(?: the)?(?: connection)?(?: without [^\n]{1,60})?
            server closed the connection unexpectedly
            broken pipe
            socket hang up
            all connection attempts failed
            network is unreachable
            no route to host
            name or service not known
            temporary failure in name resolution
            getaddrinfo (?:failed|ENOTFOUND)
            ECONNRESET|ECONNREFUSED|EPIPE
        """,
        _C.RATE_LIMITED: r"""
            too many tokens, please wait before trying again
            too many requests
            rate limit (?:exceeded|reached)
            this request would exceed (?:your (?:organization|account)'s|the) rate limit\b[^\n]{0,500}
        """,
        _C.OVERLOADED: r"""
            overloaded
            (?:the|that|this) (?:model|engine) is (?:currently )?overloaded(?: with other requests)?
        """,
        _C.RESOURCE: r"""
            no space left on device
            too many open files
            cannot allocate memory
        """,
    }.items()
}

# How client libraries print a status: openai and anthropic, httpx, urllib, requests, plain HTTP.
_STATUS_LINES = compiled(
    _any_of(r"""
        (?:Error code: |(?:Client|Server) error '|HTTP Error |HTTP(?:/[\d.]+)? (?:status )?)(?P<a>\d{3})\b
        (?P<b>\d{3}) (?:Client|Server) Error:[ ]
        (?P<c>\d{3}) (?:Bad Request|Unauthorized|Forbidden|Not Found|Conflict|Gone|Too Many Requests)\b
        (?P<d>\d{3}) (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)\b
    """)
)


def category_of_message(message: str) -> Category | None:
    """What the message of an otherwise unknown error says; None where it is not one of the known sentences."""
    text = message[:1024].strip()
    line = _STATUS_LINES.match(text)
    by_status = category_of_status(int(next(filter(None, line.groups())))) if line else None
    if by_status in (None, _C.INVALID_REQUEST):
        refusal = category_of_refusal(message)
        if refusal is not None:
            return refusal
    if by_status is not None:
        return by_status
    return next((category for category, pattern in _MESSAGES.items() if pattern.match(text)), None)


_LOST = compiled(r"reset|closed|disconnected|aborted|broken|lost|hang up|EPIPE", re.IGNORECASE)


def says_connection_lost(message: str) -> bool:
    """Whether a network error known by its message alone was a connection cut, rather than one never made."""
    return _LOST.search(message[:300]) is not None
