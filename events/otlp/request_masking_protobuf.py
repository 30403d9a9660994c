"""Blots what stands under names that say that it is a secret, in a request in protobuf: no length changes.

No schema is needed to find a pair: it is any message whose first field is a readable name and whose second is a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from recovery_ops.rules.classification.redaction import visible

_DEEPEST = 64
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5
_KEY, _VALUE = 1, 2
_TEXT, _BOOL, _INT, _DOUBLE, _LIST, _PAIRS, _BYTES = range(1, 8)
"""The fields of a value."""


class _Field(NamedTuple):
    """A field of a message, and where its content lies."""

    number: int
    kind: int
    start: int
    end: int
    is_cut: bool


def blot_named(content: bytearray, is_secret_name: Callable[[str], bool]) -> None:
    """Blot the values of pairs with these names, at any depth, also in a message that ends too soon."""
    waiting = [(_Field(0, _SIZED, 0, len(content), is_cut=True), 0)]
    while waiting:
        message, depth = waiting.pop()
        fields, _ = _fields(content, message.start, message.end)
        sized = [one for one in fields if one.kind == _SIZED]
        names = [content[one.start : one.end] for one in sized if one.number == _KEY and not one.is_cut]
        values = [one for one in sized if one.number == _VALUE]
        is_secret = any(_is_secret(bytes(name), is_secret_name) for name in names)
        # The name of a pair that was cut off may have stood behind its value.
        is_in_doubt = message.is_cut and not names and len(values) == 1 and _is_value(content, values[0])
        for value in values if is_secret or is_in_doubt else ():
            _blot_value(content, value.start, value.end, depth)
        if depth < _DEEPEST:
            waiting += [(one, depth + 1) for one in sized if one.end > one.start]


def _is_secret(name: bytes, is_secret_name: Callable[[str], bool]) -> bool:
    try:
        said = visible(name.decode())
    except UnicodeDecodeError:
        return False
    return said.isprintable() and is_secret_name(said)


def _is_value(content: bytearray, field: _Field) -> bool:
    """Whether it is nothing but a value, which a log record for one is not: that has a time."""
    fields, is_whole = _fields(content, field.start, field.end)
    return (is_whole or field.is_cut) and len(fields) == 1 and _is_of_value(fields[0])


def _blot_value(content: bytearray, start: int, end: int, depth: int) -> None:
    """Blot what a value holds and keep its framing; all of it where it is no value."""
    fields, is_whole = _fields(content, start, end)
    if depth > _DEEPEST or not (is_whole or end == len(content)) or not all(map(_is_of_value, fields)):
        content[start:end] = b"*" * (end - start)
        return
    for one in fields:
        size = one.end - one.start
        if one.kind == _VARINT:
            content[one.start : one.end] = b"\x80" * (size - 1) + b"\x00"
        elif one.kind == _FIXED64:
            content[one.start : one.end] = bytes(size)
        elif one.number in (_LIST, _PAIRS):
            _blot_members(content, one, depth)
        else:
            content[one.start : one.end] = b"*" * size
    rest = fields[-1].end if fields else start
    content[rest:end] = b"*" * (end - rest)


def _blot_members(content: bytearray, field: _Field, depth: int) -> None:
    """Blot the values of a list, or the names and values of pairs."""
    members, _ = _fields(content, field.start, field.end)
    for member in members:
        if member.kind != _SIZED:
            content[member.start : member.end] = b"\x00" * (member.end - member.start)
        elif field.number == _LIST:
            _blot_value(content, member.start, member.end, depth + 1)
        else:
            for part in _fields(content, member.start, member.end)[0]:
                if (part.number, part.kind) == (_VALUE, _SIZED):
                    _blot_value(content, part.start, part.end, depth + 1)
                else:
                    content[part.start : part.end] = b"*" * (part.end - part.start)
    rest = members[-1].end if members else field.start
    content[rest : field.end] = b"*" * (field.end - rest)


def _is_of_value(field: _Field) -> bool:
    kinds = {_BOOL: _VARINT, _INT: _VARINT, _DOUBLE: _FIXED64}
    return field.number <= _BYTES and field.kind == kinds.get(field.number, _SIZED)


def _fields(content: bytearray, start: int, end: int) -> tuple[list[_Field], bool]:
    """The fields up to the end or to what is none, and whether that is the end. One that ends too late is cut."""
    found: list[_Field] = []
    at = start
    while at < end:
        tag, at = _number(content, at, end)
        number, kind = tag >> 3, tag & 7
        begin = at
        if number == 0:
            return found, False
        if kind == _VARINT:
            value, at = _number(content, at, end)
            is_good = value >= 0
        elif kind == _SIZED:
            size, begin = _number(content, at, end)
            is_good, at = size >= 0, begin + max(0, size)
        elif kind in (_FIXED64, _FIXED32):
            is_good, at = True, at + (8 if kind == _FIXED64 else 4)
        else:
            return found, False
        if not is_good:
            return found, False
        found.append(_Field(number, kind, begin, min(at, end), is_cut=at > end))
        if at > end:
            return found, False
    return found, True


def _number(content: bytearray, at: int, end: int) -> tuple[int, int]:
    """A varint and where it ends; less than 0 where there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            return -1, at
        byte = content[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    return -1, at
