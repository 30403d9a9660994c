"""Numbers in addresses."""

from __future__ import annotations

from django.urls import register_converter


class Number:
    """A whole number that any column can hold; what is longer is the address of nothing."""

    regex = "[0-9]{1,9}"

    def to_python(self, text: str) -> int:
        return int(text)

    def to_url(self, number: int) -> str:
        return str(number)


register_converter(Number, "number")
