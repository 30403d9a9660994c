"""What can stand in an address: numbers that a column can hold, and names that anybody may have chosen."""

from __future__ import annotations

from django.urls import register_converter

from recovery_ops.control.core.numbers import DIGITS
from recovery_ops.rules.url_names import name_in, part_of


class Number:
    """A whole number that any column can hold; what is longer is the address of nothing."""

    regex = f"[0-9]{{1,{DIGITS}}}"

    def to_python(self, text: str) -> int:
        return int(text)

    def to_url(self, number: int) -> str:
        return str(number)


class Name:
    """Any text, line ends too, which `path` takes for the address of nothing. Every name has an address."""

    regex = r"[\s\S]+"

    def to_python(self, text: str) -> str:
        return name_in(text)

    def to_url(self, name: object) -> str:
        return part_of(str(name))


register_converter(Number, "number")
register_converter(Name, "name")
