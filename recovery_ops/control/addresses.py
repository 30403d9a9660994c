"""What can stand in an address: numbers that a column can hold, and names of causes."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import PathConverter


class Number:
    """A whole number that any column can hold; what is longer is the address of nothing."""

    regex = "[0-9]{1,9}"

    def to_python(self, text: str) -> int:
        return int(text)

    def to_url(self, number: int) -> str:
        return str(number)


class Fingerprint(PathConverter):
    """What a sender calls a cause: any text, line ends too, which `path` takes for the address of nothing."""

    regex = r"[\s\S]+"


register_converter(Number, "number")
register_converter(Fingerprint, "fingerprint")
