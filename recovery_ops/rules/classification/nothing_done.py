"""Proof that a failed call did nothing upstream, so that it may be made again whatever it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recovery_ops.rules.classification.codes import category_of_code
from recovery_ops.rules.classification.exception_types import CONNECTION_LOST, NEVER_SENT
from recovery_ops.rules.enums import CAPACITY, Category
from recovery_ops.rules.lazy_patterns import compiled

_PROVEN_STATUS = frozenset({401, 429, 529})
_REFUSED_AT_THE_DOOR = frozenset({Category.AUTH, Category.STALE_EVIDENCE, Category.CONTEXT_OVERFLOW})
"""The service looked at the request and refused it as it was: it can be fixed, and sent again."""


def is_refused_untouched(
    category: Category, status: int | None, codes: Iterable[str], *, is_typed: bool = False
) -> bool:
    """Whether the answer itself proves that the service refused the request and did nothing.

    A bare 503 proves nothing: a proxy sends one also after a connection that broke in mid-request. Without a status the
    category counts only where the exception's type or an adapter's kind gives it (`is_typed`): words prove nothing, and
    a stream may send a code after its first byte.
    """
    if status in _PROVEN_STATUS:
        return True
    if status == 503:
        return any(category_of_code(code) in CAPACITY for code in codes)
    if category not in _REFUSED_AT_THE_DOOR:
        return False
    return is_typed if status is None else 400 <= status < 500


# OpenSSL's names of what goes wrong before a session exists. Alerts that TLS 1.3 may send later are not among them.
_HANDSHAKE = compiled(
    r"\[SSL: (?:CERTIFICATE_VERIFY_FAILED|WRONG_VERSION_NUMBER|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS_AVAILABLE"
    r"|NO_SHARED_CIPHER|HTTP_REQUEST|DH_KEY_TOO_SMALL|TLSV1_ALERT_PROTOCOL_VERSION|TLSV1_UNRECOGNIZED_NAME"
    r"|SSLV3_ALERT_HANDSHAKE_FAILURE)\]|^(?:_ssl\.c:\d+: )?The handshake operation timed out\b"
)
# How h2 prints the end of a stream; 7 is REFUSED_STREAM, which promises that the request was not processed.
_REFUSED_STREAM = compiled(r"\A<StreamReset stream_id:\d+, error_code:(?:7|(?:ErrorCodes\.)?REFUSED_STREAM)\b")


def was_never_sent(types: Sequence[tuple[str, ...]], message: str) -> bool:
    """Whether the request did not leave: no connection, no free one in the pool, no TLS session, a refused stream."""
    if _REFUSED_STREAM.search(message):
        return True
    for names in types:
        if not CONNECTION_LOST.isdisjoint(names):
            return False
        if not NEVER_SENT.isdisjoint(names):
            return True
    return _HANDSHAKE.search(message) is not None
