"""Blots secrets out of requests as they were sent, broken or not, so that they can still be read again.

What is kept for a replay has to be readable by the code that could not read it yet, so its framing stays: in protobuf
no length changes, in JSON only what stands between two quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from events.cleaning import SECRET_KEY
from events.sent import Encoding
from recovery_ops.rules.masking import MASK, blotted, masked

_PAIR = re.compile(rb"\n(.)([\x20-\x7e]{1,127}?)\x12(.)\n(.)", re.DOTALL)
"""A KeyValue of protobuf with a text: the size of the key, the key; then the sizes of the value and of the text."""
_SHORT_CHARS = 64
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_JSON_PAIR = re.compile(
    r'("key"\s*:\s*"((?:[^"\\]|\\.){1,256})"\s*,\s*"value"\s*:\s*\{\s*"stringValue"\s*:\s*)"(?:[^"\\]|\\.)*"'
)

_JSON_MEMBER = re.compile(r'("((?:[^"\\]|\\.){1,256})"\s*:\s*)"(?:[^"\\]|\\.)*"')
"""A member whose name may say that its value is a secret, in what is no request of ours at all."""


def blot(content: bytes, encoding: Encoding) -> bytes:
    """The same request without secrets: values that look like one, and values of keys that say so."""
    if encoding is Encoding.JSON:
        text = "".join(_literals(content.decode(errors="backslashreplace")))
        return _JSON_MEMBER.sub(_value, _JSON_PAIR.sub(_value, text)).encode(errors="backslashreplace")
    return _by_framing(blotted(content.decode("latin-1")).encode("latin-1"))


def _literals(text: str) -> Iterator[str]:
    """The text between quotes and, where it is no JSON at all, all other text."""
    end = 0
    for found in _LITERAL.finditer(text):
        yield _seen(masked, text[end : found.start()])
        yield _seen(_literal, found[0])
        end = found.end()
    yield masked(text[end:])


def _seen(hide: Callable[[str], str], written: str) -> str:
    """What this makes of a text; of a short one nearly always known, because a request says its words over and over."""
    return _hidden(hide, written) if len(written) <= _SHORT_CHARS else hide(written)


@lru_cache(maxsize=16_384)
def _hidden(hide: Callable[[str], str], written: str) -> str:
    return hide(written)


def _literal(written: str) -> str:
    try:
        text = json.loads(written, strict=False) if "\\" in written else written[1:-1]
    except ValueError:
        return written if masked(written) == written else f'"{MASK}"'
    hidden = masked(text)
    return written if hidden == text else json.dumps(hidden)


def _value(found: re.Match[str]) -> str:
    return f'{found[1]}"{MASK}"' if SECRET_KEY.search(found[2]) else found[0]


def _by_framing(content: bytes) -> bytes:
    kept = bytearray(content)
    for found in _PAIR.finditer(content):
        key, size = found[2], found[4][0]
        if found[1][0] == len(key) and SECRET_KEY.search(key.decode("latin-1")):
            end = min(found.end() + size, len(kept))
            kept[found.end() : end] = b"*" * (end - found.end())
    return bytes(kept)
