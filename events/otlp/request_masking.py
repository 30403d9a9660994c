"""Blots secrets out of requests as they were sent, broken or not, so that they can still be read again.

What is kept for a replay has to be readable by the code that could not read it yet, so its framing stays: in protobuf
no length changes, in JSON only what stands between two quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from events.ingest.cleaning import PLAIN, Cleaner, agreed
from events.otlp.request_masking_json import without_named
from events.otlp.request_masking_protobuf import blot_named
from events.otlp.sent import Encoding
from recovery_ops.rules.classification.redaction import MASK, blotted, masked
from recovery_ops.rules.policy.masking_rules import Masking
from recovery_ops.wire.masking import OUR_NAMES

_PAIR = re.compile(rb"\n(.)([\x20-\x7e]{1,127}?)\x12(.)\n(.)", re.DOTALL)
"""A KeyValue of protobuf with a text: the size of the key, the key; then the sizes of the value and of the text."""
_SHORT_CHARS = 64
_MORE_BYTES = 4096
"""What more is looked at where a request is cut: a secret of 640 characters has fewer, each written as six in JSON."""
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_JSON_MEMBER = re.compile(r'("((?:[^"\\]|\\.){1,256})"\s*:\s*)"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
"""A member whose name may say that its value is a secret, in what is no request of ours at all."""


def blot(content: bytes, encoding: Encoding, cleaner: Cleaner = PLAIN) -> bytes:
    """The same request without secrets: values that look like one, and values of keys that say so."""
    if encoding is Encoding.JSON:

        def value(found: re.Match[str]) -> str:
            return f'{found[1]}"{MASK}"' if cleaner.is_secret_name(found[2]) else found[0]

        named = without_named(content.decode(errors="backslashreplace"), cleaner.is_secret_name)
        text = "".join(_literals(named, cleaner.masking))
        text = _JSON_MEMBER.sub(value, text)
        # Without JSON there are no members, and a quote may part a name from its value: `password="…"`.
        text = text if _is_json(content) else _hidden(text, cleaner.masking)
        return text.encode(errors="backslashreplace")
    framed = _by_framing(content, cleaner)
    return cleaner.masking.blotted(blotted(framed.decode("latin-1")).encode("latin-1"))


def blot_start(content: bytes, encoding: Encoding, most: int, cleaner: Cleaner = PLAIN) -> bytes:
    """What the first `most` bytes say, blotted; nothing of what the cut leaves half of."""
    return agreed(blot(content[:most], encoding, cleaner), blot(content[: most + _MORE_BYTES], encoding, cleaner))[
        :most
    ]


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _literals(text: str, masking: Masking) -> Iterator[str]:
    """The text between quotes and, where it is no JSON at all, all other text."""
    end = 0
    for found in _LITERAL.finditer(text):
        yield _seen(_hidden, text[end : found.start()], masking)
        yield _seen(_literal, found[0], masking)
        end = found.end()
    yield _hidden(text[end:], masking)


_Hide = Callable[[str, Masking], str]


def _seen(hide: _Hide, written: str, masking: Masking) -> str:
    """What this makes of a text; of a short one nearly always known, because a request says its words over and over."""
    return _known(hide, written, masking) if len(written) <= _SHORT_CHARS else hide(written, masking)


@lru_cache(maxsize=16_384)
def _known(hide: _Hide, written: str, masking: Masking) -> str:
    return hide(written, masking)


def _hidden(text: str, masking: Masking) -> str:
    return masking.masked(masked(text))


def _literal(written: str, masking: Masking) -> str:
    try:
        text = json.loads(written, strict=False) if "\\" in written else written[1:-1]
    except ValueError:
        return written if _hidden(written, masking) == written else f'"{MASK}"'
    if text in OUR_NAMES:
        return written
    hidden = _hidden(text, masking)
    return written if hidden == text else json.dumps(hidden)


def _by_framing(content: bytes, cleaner: Cleaner) -> bytes:
    kept = bytearray(content)
    blot_named(kept, cleaner.is_secret_name)
    for found in _PAIR.finditer(content):
        key, size = found[2], found[4][0]
        if found[1][0] == len(key) and cleaner.is_secret_name(key.decode("latin-1")):
            end = min(found.end() + size, len(kept))
            kept[found.end() : end] = b"*" * (end - found.end())
    return bytes(kept)
