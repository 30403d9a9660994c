"""The chips above a table: what may be shown, how many there are of it, and which is chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One chip. `state` is drawn with its mark; otherwise `word` stands there."""

    word: str
    count: int
    href: str
    is_current: bool
    state: str = ""


def facets_of(
    counts: Mapping[str, int],
    *,
    total: int,
    chosen: str,
    words: Mapping[str, str],
    states: Collection[str] = (),
    query: str = "",
) -> Iterator[Facet]:
    """`All` first, then a chip for everything there is; each keeps the rest of the address (`query`)."""
    rest = f"&{query}" if query else ""
    yield Facet(word="All", count=total, href=f"?{query}" if query else "?", is_current=chosen not in counts)
    for name, count in counts.items():
        word = words.get(name, name)
        yield Facet(
            word=word[:1].upper() + word[1:],
            count=count,
            href=f"?{urlencode({'show': name})}{rest}",
            is_current=name == chosen,
            state=name if name in states else "",
        )
