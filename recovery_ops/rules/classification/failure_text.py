"""The texts of a failure that are shown and compared: masked, bounded, and without ids, numbers and names."""

from __future__ import annotations

from functools import lru_cache

from recovery_ops.rules.classification.redaction import masked, printable
from recovery_ops.rules.lazy_patterns import compiled

_MESSAGE_BYTES = 1024


@lru_cache(maxsize=256)  # trouble says the same words again and again
def fingerprint_of(error_type: str, category: str, message: str) -> str:
    """The same for failures of one cause, whatever ids, numbers and names their messages carry."""
    import hashlib  # when first needed: an agent in which nothing fails does without OpenSSL

    key = f"{error_type}\0{category}\0{without_variables(message.lower(), '#')[:200]}"
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=6).hexdigest()


# Ids, numbers, paths, addresses and everything quoted: what makes two messages of one cause differ.
_VARIABLE = compiled(
    r"""'[^']{0,200}'|"[^"]{0,200}"|`[^`]{0,200}`|\w+://\S+|(?:/[\w.-]+){2,}|\b(?=\w*\d)[\w.:-]+|\[masked\]"""
)


def without_variables(message: str, sign: str) -> str:
    """The message with a sign for each id, number, path, address and quoted word."""
    return _VARIABLE.sub(sign, message)


def shown_message(message: str) -> str:
    text = printable(masked(message[:4096]), _MESSAGE_BYTES)
    while len(text.encode()) > _MESSAGE_BYTES:
        text = printable(text, len(text) - max(1, (len(text.encode()) - _MESSAGE_BYTES) // 4))
    return text


_IS_A_CODE = compiled(r"[\w.-]{1,64}\Z")


def shown_code(code: str | None) -> str | None:
    if code is None or _IS_A_CODE.match(code) is None:
        return None
    words = code.replace("_", " ")  # a sentence in the place of a code has lost its blanks, not its secrets
    return code if masked(code) == code and masked(words) == words else None


_IS_AN_ID = compiled(r"[\w.:=/+-]{1,128}\Z")


def shown_id(request_id: str | None) -> str | None:
    if request_id is None or _IS_AN_ID.match(request_id) is None or masked(request_id) != request_id:
        return None
    return request_id
