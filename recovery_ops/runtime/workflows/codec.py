"""What a step's input and result look like on disk: plain JSON, or what a codec of the caller's makes of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from recovery_ops.runtime.errors import CheckpointError, ConfigurationError

_PICKLES = frozenset({"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"})
_DEEPEST = 100


class Codec(Protocol):
    """Turns values into bytes and back. The same value must always give the same bytes: inputs are told apart by them.

    `name` is stored with each checkpoint; one that was written under another name is refused, never guessed at.
    """

    name: str

    def encode(self, value: Any) -> bytes:
        """The bytes of a value; raises TypeError or ValueError, with the reason, for what it cannot store."""

    def decode(self, content: bytes) -> Any:
        """The value of bytes that `encode` made."""


class JsonCodec:
    """Objects with text keys, lists, text, finite numbers, booleans and None; tuples come back as lists."""

    name = "json"

    def encode(self, value: Any) -> bytes:
        """Canonical: sorted keys, no blanks, ASCII."""
        fault = _fault(value, "it", 0)
        if fault:
            raise TypeError(fault)
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")

    def decode(self, content: bytes) -> Any:
        """What `encode` was given, with lists for tuples."""
        return json.loads(content)


JSON = JsonCodec()


def checked_codec(codec: Codec | None) -> Codec:
    """The codec, or JSON for None. Refuses pickles: whoever can write the file could then run code in the agent."""
    if codec is None:
        return JSON
    home = getattr(codec, "__module__", None) or getattr(codec, "__name__", "")
    named = str(getattr(codec, "name", ""))
    if {str(home).partition(".")[0], str(getattr(codec, "__name__", "")).partition(".")[0], named} & _PICKLES:
        raise ConfigurationError(
            "checkpoints are never pickled, reading a pickle runs code: give a codec of plain data"
        )
    if not named or not callable(getattr(codec, "encode", None)) or not callable(getattr(codec, "decode", None)):
        raise ConfigurationError("a codec has a name, encode(value) -> bytes and decode(bytes) -> value")
    return codec


def encoded(codec: Codec, value: Any, what: str) -> bytes:
    """The bytes of a value; CheckpointError says what cannot be stored, and what to do."""
    try:
        return codec.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{what} cannot be stored as {codec.name}: {error}") from error


def decoded(codec: Codec, content: bytes, written_as: str, what: str) -> Any:
    """The value of stored bytes."""
    if written_as != codec.name:
        raise CheckpointError(f"{what} was stored as {written_as}: resume it with that codec, not with {codec.name}")
    try:
        return codec.decode(content)
    except (TypeError, ValueError, KeyError) as error:
        raise CheckpointError(f"{what} cannot be read as {codec.name}: {error}") from error


def _fault(value: object, path: str, depth: int) -> str:
    """Where a value is not plain JSON, in words; empty when it is."""
    if value is None or isinstance(value, str | bool | int):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{path} is {value}, which JSON does not know"
    if depth >= _DEEPEST:
        return f"{path} lies more than {_DEEPEST} levels deep"
    if isinstance(value, Mapping) and isinstance(value, dict):
        for key, inner in value.items():
            if type(key) is not str:
                return f"{path} has the key {key!r}, which is not text"
            if fault := _fault(inner, f"{path}[{key!r}]", depth + 1):
                return fault
        return ""
    if isinstance(value, Sequence) and isinstance(value, list | tuple):
        return next((fault for n, one in enumerate(value) if (fault := _fault(one, f"{path}[{n}]", depth + 1))), "")
    return f"{path} is a {type(value).__name__}"
