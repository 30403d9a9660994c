"""Server-sent events out of bytes, however they are cut; pure, and bounded against a server that never ends one."""

from __future__ import annotations

from recovery_ops.rules.lazy_dataclass import dataclass


class TooLong(Exception):
    """An event grew beyond the limit."""


@dataclass(frozen=True, slots=True)
class Message:
    """One event. `id` is the last id seen so far, as the standard has it; the data's lines are joined."""

    event: str
    data: str
    id: str


class Messages:
    """Feed it bytes, get the events that are whole. An event that the stream ends within is never given out."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._rest = b""
        self._is_after_cr = False
        self._is_begun = False
        self._data: list[str] = []
        self._size = 0
        self._event = ""
        self._id = ""

    def feed(self, content: bytes) -> list[Message]:
        """The events that this completes; TooLong beyond the limit."""
        if not content:
            return []
        if self._is_after_cr and content.startswith(b"\n"):
            content = content[1:]
        self._is_after_cr = content.endswith(b"\r")
        lines = (self._rest + content).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        found = [message for line in lines if (message := self._line(line)) is not None]
        if self._size + len(self._rest) > self._limit_bytes:
            raise TooLong(f"an event of more than {self._limit_bytes} bytes")
        return found

    def _line(self, raw: bytes) -> Message | None:
        if not self._is_begun:
            self._is_begun = True
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if not raw:
            return self._dispatch()
        name, _, value = raw.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(raw)
            if self._size > self._limit_bytes:
                raise TooLong(f"an event of more than {self._limit_bytes} bytes")
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> Message | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        return Message(event or "message", "\n".join(data), self._id) if data else None
