"""Labels that people give: as they are typed, `billing, -vip`, and as they are kept, `|billing|spring|`."""

from __future__ import annotations

from collections.abc import Iterable

LABEL_CHARS, LABELS_MOST = 40, 10
LABELS_CHARS = LABELS_MOST * (LABEL_CHARS + 1) + 1


def parse_labels(kept: str) -> list[str]:
    """The labels that are kept, in alphabetical order."""
    return kept.strip("|").split("|") if kept else []


def format_labels(names: Iterable[str]) -> str:
    """How they are kept, so that a whole one can be looked for."""
    found = "|".join(sorted(names))
    return f"|{found}|" if found else ""


def apply_label_edit(names: Iterable[str], typed: str) -> list[str]:
    """These with what was typed: what is named comes, what stands behind a minus goes."""
    named = _typed(typed)
    gone = {name.removeprefix("-").strip() for name in named if name.startswith("-")}
    return sorted({*names, *(name for name in named if not name.startswith("-"))} - gone)


def labels_error(typed: str) -> str:
    """What is wrong with them as they were typed; empty where nothing is."""
    names = [name.removeprefix("-").strip() for name in _typed(typed)]
    if not names:
        return "must be words separated by commas"
    is_good = all(name and len(name) <= LABEL_CHARS and name.isprintable() and "|" not in name for name in names)
    return "" if is_good else f"must have at most {LABEL_CHARS} printable characters each, without |"


def _typed(typed: str) -> list[str]:
    return list(dict.fromkeys(name for part in typed.split(",") if (name := " ".join(part.split()).lower())))
