"""The guide: snippets run, tables are those of the rules, outputs are what examples print, links lead somewhere."""

from __future__ import annotations

import re

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def snippets(text: str, language: str = "python") -> list[str]:
    return [content for found, content in FENCE.findall(text) if found == language]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
