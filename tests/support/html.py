"""Reads an HTML answer by its `data-` attributes, ids and links, so that no test depends on a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Self

_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


@dataclass
class Element:
    """One element: its tag, its attributes, its own text, and the elements inside it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def data(self) -> dict[str, str]:
        """Its `data-` attributes, without the prefix."""
        return {name[5:]: value for name, value in self.attributes.items() if name.startswith("data-")}

    @property
    def text(self) -> str:
        """Its text and that of the elements inside it, with single spaces."""
        return " ".join(" ".join([*self.texts, *(child.text for child in self.children)]).split())

    def all(self) -> list[Element]:
        """This element and every one inside it, in the order of the document."""
        return [self, *(found for child in self.children for found in child.all())]


class Shown:
    """What an answer shows. `Shown(client.get("/runs"))`, or of the HTML itself."""

    def __init__(self, answer: Any) -> None:
        self.root = answer if isinstance(answer, Element) else _parsed(_html(answer))

    def values(self, name: str) -> list[str]:
        """The values of `data-<name>`, in the order of the document."""
        return [one.data[name] for one in self.root.all() if name in one.data]

    def having(self, name: str, value: str | None = None) -> list[Element]:
        """The elements with `data-<name>`, of this value where one is given."""
        found = [one for one in self.root.all() if name in one.data]
        return [one for one in found if value is None or one.data[name] == value]

    def one(self, name: str, value: str | None = None) -> Element:
        """The only element with `data-<name>`; fails where there is none, or more than one."""
        found = self.having(name, value)
        assert len(found) == 1, f"{len(found)} elements have data-{name}={value!r}"
        return found[0]

    def within(self, name: str, value: str) -> Self:
        """The part of the answer inside the only element with `data-<name>` of this value; `id` may be named, too."""
        if name == "id":
            found = [one for one in self.root.all() if one.attributes.get("id") == value]
            assert len(found) == 1, f"{len(found)} elements have the id {value!r}"
            return type(self)(found[0])
        return type(self)(self.one(name, value))

    @property
    def ids(self) -> set[str]:
        """The ids of all elements."""
        return {one.attributes["id"] for one in self.root.all() if "id" in one.attributes}

    @property
    def links(self) -> list[str]:
        """Where its links lead."""
        return [one.attributes["href"] for one in self.root.all() if one.tag == "a" and "href" in one.attributes]

    @property
    def fields(self) -> dict[str, str]:
        """The values of its form fields, by name; the last of several with the same name."""
        inputs = (one.attributes for one in self.root.all() if one.tag in {"input", "button", "select", "textarea"})
        return {one["name"]: one.get("value", "") for one in inputs if "name" in one}


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        # An end without its beginning is passed over; a beginning without its end ends with its parent.
        if any(one.tag == tag for one in self._open[1:]):
            while self._open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._open[-1].texts.append(data)


def _parsed(html: str) -> Element:
    builder = _Builder()
    builder.feed(html)
    builder.close()
    return builder.root


def _html(answer: Any) -> str:
    return answer if isinstance(answer, str) else answer.content.decode()
