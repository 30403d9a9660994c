"""Categories by the words of a message, as the last resort: whole sentences, anchored, never words found in a text.

`category_of_sentence` refines a status or a code whose cause the vendor gives in words alone. `category_of_message` is
for an error that has neither a known type nor a code nor a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recovery_ops.rules.classification.codes import CERTIFICATE_CODES, category_of_code, normal_code
from recovery_ops.rules.classification.quoted_responses import unwrapped
from recovery_ops.rules.classification.sentence_patterns import matches_in
from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_patterns import compiled

_C = Category

REFINED_BY_WORDS: dict[Category, tuple[Category, ...]] = {
    _C.INVALID_REQUEST: (
        *(_C.CONTEXT_OVERFLOW, _C.RATE_LIMITED, _C.QUOTA_EXHAUSTED, _C.CONTENT_REFUSED, _C.NOT_FOUND, _C.AUTH),
        _C.PERMISSION,
    ),
    _C.RATE_LIMITED: (_C.INVALID_REQUEST, _C.RATE_LIMIT_WINDOW, _C.QUOTA_EXHAUSTED),
    _C.PERMISSION: (_C.RATE_LIMITED, _C.RATE_LIMIT_WINDOW, _C.QUOTA_EXHAUSTED, _C.CONTENT_REFUSED),
}
"""What a vendor's sentence may make of a category that a status or a general code gives."""


def category_of_sentence(message: str, among: Iterable[Category]) -> Category | None:
    """The first of these categories that a vendor's own sentence means."""
    sentence = unwrapped(message)
    if not sentence:
        return None
    return next((category for category, _ in matches_in(sentence, among)), None)


_SAYS_OVERLOAD = compiled(
    r"(?:\A|[.:] )(?:The |That |This |Our )?(?:model|engine|servers?|service)?(?: is| are)?(?: currently| temporarily)*"
    r" ?(?:overloaded|at capacity|over capacity|experiencing high demand)\b",
    re.IGNORECASE,
)


def says_overload(message: str) -> bool:
    """Whether the message of a 503 speaks of overload."""
    if category_of_sentence(message, (_C.OVERLOADED,)) is not None:
        return True
    return _SAYS_OVERLOAD.search(unwrapped(message)[:300]) is not None


_IS_ABOUT_A_KEY = compiled(r"idempot(?:ency|ent)[ _-]?(?:key|token|request|parameter)", re.IGNORECASE)
_IS_USED = compiled(
    r"\b(?:already|(?:re-?)?used|processed|duplicate|conflict|mismatch|different|exists)\b", re.IGNORECASE
)
_IS_RUNNING = compiled(
    r"\b(?:in[- ]progress|in[- ]flight|in use|being (?:processed|used|handled)|concurrent|outstanding"
    r"|(?:currently|still) (?:processing|running|pending|going through))\b",
    re.IGNORECASE,
)
_IS_ANOTHER = compiled(r"\b(?:mismatch|different)\b", re.IGNORECASE)
_IS_MISSING = compiled(r"\b(?:missing|required|must|malformed|not (?:valid|supported|allowed))\b", re.IGNORECASE)


def category_of_key(message: str) -> Category | None:
    """What the message says of an idempotency key: it was used before, or its first request is still running.

    None where it says neither, but that the key is missing or malformed, or nothing at all. While the first request
    runs nothing has happened yet that could be read: the same request, asked again later, gets its answer.
    """
    text = unwrapped(message)[:300]
    if _IS_ABOUT_A_KEY.search(text) is None or _IS_MISSING.search(text) is not None:
        return None
    if _IS_RUNNING.search(text) is not None and _IS_ANOTHER.search(text) is None:
        return _C.CONFLICT
    return _C.IDEMPOTENCY_CONFLICT if _IS_USED.search(text) is not None else None


_NEVER_FITS = compiled(
    r"\b(?:too large|larger than|bigger than|never fit|must be reduced|reduce (?:your|the)|exceeds? (?:the|your) )",
    re.IGNORECASE,
)


def says_never_fits(message: str) -> bool:
    """Whether a 413 under a rate limit's code says that one request is larger than the whole limit."""
    return _NEVER_FITS.search(unwrapped(message)[:400]) is not None


_SESSION_GONE = compiled(
    r"(?:Session (?:terminated|not found|expired|has been terminated)|Invalid or expired session"
    r"|(?:Bad Request: )?No valid session ID provided)(?:\Z|[.,:;(])",
    re.IGNORECASE,
)


def says_session_gone(message: str) -> bool:
    """Whether an MCP server or client says that its session is over: a new connection makes a new one."""
    return _SESSION_GONE.match(unwrapped(message)) is not None


_CERTIFICATE = compiled(
    r"\[SSL: CERTIFICATE_VERIFY_FAILED\]|\bCERTIFICATE_VERIFY_FAILED\b|\bcertificate verify failed\b|\bx509: "
    r"|\bPKIX path (?:building|validation) failed\b|\bself[- ]signed certificate\b|\bcertificate has expired\b"
    r"|\bunable to (?:verify the first certificate|get local issuer certificate)\b"
    r"|\b(?:hostname mismatch|doesn't match), certificate\b|\bHostname/IP does not match certificate's altnames\b"
    rf"|(?:\A|: )(?:{'|'.join(sorted(CERTIFICATE_CODES))})\b",
    re.IGNORECASE,
)


def says_certificate_failed(message: str) -> bool:
    """Whether a network error is about the certificate: the next call meets the same one."""
    return _CERTIFICATE.search(message[:1024]) is not None


# In front of the sentence may stand who says it, at most twice ("Error: cannot access host: connection timed out");
# after it, the end of the message or of the clause.
_LEAD = r"\A(?:(?:(?!: )[^\n]){0,160}: ){0,2}(?:\[Errno -?\d{1,5}\] |code = \w{1,40} desc = )?"
_END = r"(?:[.!]?\s*\Z|[.,;]\s| \()"


def _any_of(lines: str) -> str:
    return "|".join(line.strip() for line in lines.strip().splitlines())


_THING = (
    r"(?:the |a |an |your )?(?:requested |specified |given )?"
    r"(?:file|resource|page|document|object|record|item|path|url|key|entity|model|tool|directory|folder|endpoint|route"
    r"|user|table|column|relation|database|index|bucket|collection|repository|branch|command|host|function)"
)
_NAMED = r"(?:[ :=]{1,2}(?:(?:with|named|called|at) )?(?:(?:id|name|key) )?[`'\"]?[^\s:;,]{1,120}[`'\"]?)?"
_WAITED_FOR = (
    r"(?:the )?(?:connection|connect|read|write|handshake|request|api|operation|query|call|tool|command|execution)"
    r"(?: (?:operation|request|call|attempt|execution))?"
)
_SOCKET = r"(?:ECONNRESET|ECONNREFUSED|ECONNABORTED|EPIPE|EHOSTUNREACH|ENETUNREACH)"
_CAUSED_BY = r"[^\n]{0,300}?\(Caused by "
_IS = r"(?:was |has been |is )?"
_CREDENTIAL = r"(?:api[ _-]?key|credentials|(?:access |auth |bearer )?token)"
_LIMIT = r"(?:time limit|timeout|deadline)"
_DETAIL = r"(?:(?::| (?:for|to|on|by|in|at|from|while|when|after)\b)[^\n]{0,300})?"

_MESSAGES: dict[Category, re.Pattern[str]] = {
    category: compiled(f"{_LEAD}(?:{_any_of(lines)}){_END}", re.IGNORECASE)
    for category, lines in {
        _C.TIMEOUT: rf"""
            (?:{_WAITED_FOR}(?: has)? )?timed[ -]?out(?: (?:after|while|waiting|connecting|in|for|on)\b[^\n]{{1,120}})?
            (?:(?:connection|connect|read|request|gateway|query) )?time-?out(?: (?:expired|exceeded|reached|error))?
            timeout (?:after|while|waiting|connecting) [^\n]{{1,80}}
            timeout (?:of )?\d{{1,9}} ?m?s exceeded
            net::ERR_(?:CONNECTION_)?TIMED_OUT(?: at [^\n]{{1,300}})?
            max retries exceeded with url: {_CAUSED_BY}(?:Connect|Read)TimeoutError\b[^\n]*
            {_WAITED_FOR} (?:took too long|exceeded (?:its|the) {_LIMIT})[^\n]{{0,80}}
            (?:context )?deadline exceeded
            (?:the|this) operation was aborted due to timeout
            upstream request timeout
            i/o timeout
            (?:connect |read |write )?(?:ETIMEDOUT|ESOCKETTIMEDOUT)(?: [^\s]{{1,200}})?
        """,
        _C.SCHEMA_MISMATCH: r"""
            (?:[^\n:]{1,60}: )?line \d{1,9} column \d{1,9} \(char \d{1,9}\)
            unexpected (?:token [^\n]{1,12} in JSON at position \d{1,9}|end of JSON input)
            invalid JSON response|failed to parse JSON|incomplete JSON segment at the end
        """,
        _C.NETWORK: rf"""
            (?:connection|stream|socket) {_IS}(?:refused|reset(?: by peer)?|aborted|broken|lost|closed)
            connection (?:error|failed|failure)
            stream disconnected before completion[^\n]{{0,200}}
            network (?:error|failure)
            net::ERR_(?:CONNECTION|NAME|ADDRESS|INTERNET|NETWORK|SOCKET|TUNNEL|PROXY)_\w{{1,40}}(?: at [^\n]{{1,300}})?
            max retries exceeded with url: {_CAUSED_BY}(?:NewConnection|NameResolution|Protocol|Proxy)Error\b[^\n]*
            (?:cannot|could not|failed to|unable to) (?:connect|establish (?:a )?(?:new )?connection)\b[^\n]{{0,200}}
            fetch failed|failed to fetch
            (?:remote end|peer|server) (?:closed|disconnected)(?: the)?(?: connection)?(?: without [^\n]{{1,60}})?
            server closed the connection unexpectedly
            upstream connect error or disconnect/reset before headers
            broken pipe
            socket hang up
            all connection attempts failed
            network is unreachable
            no route to host
            name or service not known
            temporary failure in name resolution
            (?:getaddrinfo )?(?:ENOTFOUND|EAI_AGAIN)(?: [^\s]{{1,200}})?
            getaddrinfo failed
            (?:connect |read |write )?{_SOCKET}(?: [^\s]{{1,200}})?
        """,
        _C.RATE_LIMITED: rf"""
            too many tokens, please wait before trying again
            too many requests
            (?:api |request )?rate[ -]limit(?:ed|ing)?(?: {_IS}(?:exceeded|reached|hit))?(?: for [^\n]{{1,200}})?
        """,
        _C.OVERLOADED: r"""
            (?:server |service |system )?(?:is )?(?:currently |temporarily )?overloaded
            (?:the|that|this) (?:model|engine|server|service) is (?:currently )?overloaded(?: with other requests)?
        """,
        _C.SERVER_ERROR: r"""
            bad gateway
            no healthy upstream
            (?:the )?(?:service|server) (?:is )?(?:currently |temporarily )?unavailable
            internal (?:server )?error
        """,
        _C.AUTH: rf"""
            (?:unauthorized|unauthenticated)
            (?:the )?(?:authentication|authorization) (?:failed|error|required)
            (?:the )?(?:invalid|incorrect|expired) {_CREDENTIAL}(?: provided)?
            (?:the )?{_CREDENTIAL} (?:is |has )?(?:invalid|expired)
            (?:FATAL: {{1,2}})?password authentication failed for user [^\n]{{1,200}}
            access denied for user [^\n]{{1,200}}
        """,
        _C.PERMISSION: rf"""
            (?:permission|access)(?: is| was)? denied{_DETAIL}
            (?:forbidden|operation not permitted|EACCES|EPERM){_DETAIL}
            (?:the )?(?:you|user|caller|account) (?:does|do) not have (?:the )?(?:required )?permissions?\b{_DETAIL}
            (?:you are |user is )?not (?:authori[sz]ed|permitted){_DETAIL}
            [^\n]{{1,300}}? is not authori[sz]ed to perform\b[^\n]{{0,300}}
            insufficient (?:permissions?|privileges?|scopes?){_DETAIL}
        """,
        _C.NOT_FOUND: rf"""
            {_THING}{_NAMED} (?:was |is |could )?not (?:be )?found{_DETAIL}
            {_THING}{_NAMED} (?:does not|doesn't) exist{_DETAIL}
            [`'"][^`'"\n]{{1,200}}[`'"] (?:(?:does not|doesn't) exist|(?:was |is )?not found){_DETAIL}
            no such (?:file or directory|file|directory|table|column|key|object|entity|host|tool|model)\b{_DETAIL}
            not found{_DETAIL}
            (?:it )?(?:does not|doesn't) exist{_DETAIL}
            ENOENT
        """,
        _C.RESOURCE: r"""
            no space left on device
            too many open files
            cannot allocate memory
        """,
    }.items()
}

_FETCH_FAILED = compiled(r"(?:fetch failed|failed to fetch|load failed|terminated)\Z", re.IGNORECASE)


def says_fetch_failed(message: str) -> bool:
    """Whether a JavaScript TypeError is the one that `fetch` raises when the network fails."""
    return _FETCH_FAILED.match(message[:100].strip()) is not None


_STATUS_BEFORE = compiled(r"\A[45]\d\d (?=[A-Z])")
"""A client for JavaScript prints it; as a status it counts only where the words after it are known."""
_ONE_WORD = compiled(r"[A-Za-z]+_[A-Za-z_]+\Z")


def category_of_message(message: str) -> Category | None:
    """The category of an otherwise unknown error by its message; None where it is not one of the known sentences."""
    text = _STATUS_BEFORE.sub("", message[:1024].strip())
    by_vendor = category_of_sentence(text, Category)
    if by_vendor is not None:
        return by_vendor
    if _ONE_WORD.match(text) is not None:
        return category_of_code(normal_code(text))
    of_key = category_of_key(text)
    if of_key is not None:
        return of_key
    if says_certificate_failed(text):
        return _C.NETWORK
    return next((category for category, pattern in _MESSAGES.items() if pattern.match(text)), None)


_LOST = compiled(r"reset|closed|disconnected|aborted|broken|lost|hang up|EPIPE", re.IGNORECASE)


def says_connection_lost(message: str) -> bool:
    """Whether a network error known by its message alone was a connection cut, rather than one never made."""
    return _LOST.search(message[:300]) is not None
