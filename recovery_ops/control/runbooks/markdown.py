"""Steps for people, from the little Markdown that they are written in: headings, steps, lines, and nothing that runs.

A line that begins with `- [ ]`, `-`, `*` or `1.` is a step to tick, one that begins with `#` a heading, any other is a
line of text. In a line there are `code`, **strong** words and [links](https://example.org), of this console or by HTTP
and HTTPS. Everything else is the text that it is: no markup comes through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from recovery_ops.control.runbooks.models import KEY_CHARS, STEP_CHARS

STEP, HEADING, TEXT = "step", "heading", "text"
STEPS_MOST = 50
_STEP = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(?P<words>\S.*)$")
_HEADING = re.compile(r"^\s*#{1,6}\s+(?P<words>\S.*)$")
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\[(?P<words>[^\]]+)\]\((?P<href>(?:https?://|/(?!/))[^\s()<>\"']+)\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One line of the steps. `key` tells a step from the others, and stays while its words do."""

    kind: str
    words: str
    key: str = ""

    @property
    def html(self) -> SafeString:
        """Its words with code, strong words and links; escaped."""
        return format_html_join("", "{}", ((piece,) for piece in _pieces(self.words)))


def blocks_of(text: str) -> list[Block]:
    """The lines of a text. Of two steps with the same words the second has another key."""
    found: list[Block] = []
    seen: dict[str, int] = {}
    for line in text.splitlines():
        step, heading = _STEP.match(line), _HEADING.match(line)
        if step is not None:
            words = step["words"].strip()
            seen[words] = seen.get(words, 0) + 1
            found.append(Block(kind=STEP, words=words, key=key_of(words, seen[words])))
        elif heading is not None:
            found.append(Block(kind=HEADING, words=heading["words"].strip()))
        elif line.strip():
            found.append(Block(kind=TEXT, words=line.strip()))
    return found


def steps_of(text: str) -> list[Block]:
    """Those of its lines that are ticked."""
    return [one for one in blocks_of(text) if one.kind == STEP]


def key_of(words: str, place: int = 1) -> str:
    """What a step is known by: its words, and which of those with the same words it is."""
    return sha256(f"{place}\n{words}".encode()).hexdigest()[:KEY_CHARS]


def fault_of_text(text: str) -> str:
    """What is wrong with the steps as somebody typed them; empty for nothing."""
    if not all(one.isprintable() or one in "\n\t" for one in text):
        return "has characters that cannot be shown"
    steps = steps_of(text)
    if text.strip() and not steps:
        return "has no step; start a line with - and a space"
    if len(steps) > STEPS_MOST:
        return f"has at most {STEPS_MOST} steps"
    if any(len(one.words) > STEP_CHARS for one in steps):
        return f"has steps of at most {STEP_CHARS} characters"
    return ""


def _pieces(words: str) -> Iterator[str]:
    end = 0
    for found in _INLINE.finditer(words):
        yield words[end : found.start()]
        end = found.end()
        if found["code"]:
            yield format_html("<code>{}</code>", found["code"])
        elif found["strong"]:
            yield format_html("<strong>{}</strong>", found["strong"])
        else:
            yield format_html('<a href="{}" rel="noreferrer">{}</a>', found["href"], found["words"])
    yield words[end:]
