"""Whether a call that never reached its service failed on our side: its name was not found, or no route led there.

A service that is down refuses, resets and times out as well as one that is cut off, so those tell nothing.
"""

from __future__ import annotations

import re

from recovery_ops.rules.lazy_patterns import compiled

_TYPES = compiled(r"(?:\A|\.)(?:gaierror|herror|NameResolutionError|ClientConnectorDNSError|\w*ProxyError)\Z")
# Said by the system's own calls, however deep in a client's sentence they stand.
_SENTENCES = compiled(
    r"\b(?:name or service not known|temporary failure in name resolution|nodename nor servname provided"
    r"|name does not resolve|failed to resolve|getaddrinfo (?:failed|ENOTFOUND|EAI_AGAIN)"
    r"|network is (?:unreachable|down)|no route to host|cannot assign requested address"
    r"|ENETUNREACH|ENETDOWN|EHOSTUNREACH|EADDRNOTAVAIL|NameResolutionError|ProxyError)\b",
    re.IGNORECASE,
)
_READ_CHARS = 1024


def failed_on_our_side(exception_type: str, message: str) -> bool:
    """Whether the error, by its type or else by the system's own sentence, is of the way out and not of its end."""
    return _TYPES.search(exception_type) is not None or _SENTENCES.search(message[:_READ_CHARS]) is not None
