"""How one policy document, or text, differs from another: line by line for reading, part by part for summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from recovery_ops.rules.policy.model import PolicyInvalid, parse_policy, whole_document_of

CONTEXT_LINES = 3
MOST_LINES = 2000
"""Of a page; what is longer is cut, and says so."""


@dataclass(frozen=True, slots=True)
class Line:
    """`kind` is `same`, `del`, `ins` or `gap` (lines that are the same were left out)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """One value that differs, by its path; None where it is not there. Rules go by their id, not by their place."""

    path: str
    before: Any
    after: Any

    @property
    def words(self) -> str:
        """`rules.search_web.settings.max_retries 3 → 5`."""
        return f"{self.path} {self.before_word} → {self.after_word}"

    @property
    def before_word(self) -> str:
        """`3`, `not set`."""
        return _word(self.before)

    @property
    def after_word(self) -> str:
        """`5`, `none`."""
        return _word(self.after)


def written(document: Mapping[str, Any]) -> str:
    """A document as people read and type it."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def lines_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    """The lines that went and came, each with a few around it; nothing where the documents say the same.

    Both with every section written out: what is left out on one side is no line that went.
    """
    return lines_of_text(written(_whole(before)), written(_whole(after)))


def lines_of_text(before: str, after: str) -> list[Line]:
    """The lines of a text that went and came, each with a few around it."""
    old, new = before.splitlines(), after.splitlines()
    found: list[Line] = []
    end = 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT_LINES):
        if group[0][1] > end:
            found.append(Line("gap", f"… {group[0][1] - end} lines"))
        for kind, first, last, start, stop in group:
            if kind == "equal":
                found += [Line("same", one) for one in old[first:last]]
            else:
                found += [Line("del", one) for one in old[first:last]]
                found += [Line("ins", one) for one in new[start:stop]]
        end = group[-1][2]
    if found and end < len(old):
        found.append(Line("gap", f"… {len(old) - end} lines"))
    if len(found) > MOST_LINES:
        found[MOST_LINES:] = [Line("gap", f"… {len(found) - MOST_LINES} lines more")]
    return found


def parts_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Part]:
    """Every value that differs in what it means, in the order of the newer document, then what is gone.

    A section that is left out says what the built-in policy says: to write that down, or no longer, changes nothing.
    """
    old, new = dict(_flat("", _whole(before))), dict(_flat("", _whole(after)))
    changed = [Part(path, old.get(path), value) for path, value in new.items() if old.get(path) != value]
    changed += [Part(path, value, None) for path, value in old.items() if path not in new]
    return [one for one in changed if not _is_filled(one, old, new)]


def _is_filled(part: Part, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether it was or became empty, and what came or went there is told by itself."""
    if part.before not in ([], {}, None) or part.after not in ([], {}, None):
        return False
    return any(path.startswith(f"{part.path}.") for paths in (old, new) for path in paths)


def _whole(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document with every section written out; what no policy knows stays as it stands there."""
    try:
        meant = whole_document_of(parse_policy(document))
    except PolicyInvalid:  # of a version that allowed what this one does not
        return document
    return {name: value for name, value in document.items() if name not in meant and name != "version"} | meant


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _flat(f"{path}.{name}" if path else str(name), part)
    elif isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        for index, part in enumerate(value):
            yield from _flat(
                f"{path}.{_key(part, index)}", {name: one for name, one in part.items() if name not in ("id", "name")}
            )
    else:
        yield path, value


_NAMES = ("id", "name")
"""What a row is called by."""


def _key(part: Mapping[str, Any], index: int) -> str:
    """What a row of a list is called, so that a row that moved is no change of all that follow it."""
    for word in _NAMES:
        if isinstance(part.get(word), str):
            return str(part[word])
    if "category" in part:
        status = part.get("status_code")
        return str(part["category"]) + ("" if status is None else f" {status}")
    return str(part.get("operation", index))


def _word(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list | dict) and not value:
        return "none"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
