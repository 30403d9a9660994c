"""What a record becomes: names, moments, keys, and values that no database chokes on."""

from __future__ import annotations

NOW_US = 1_795_000_000_000_000


POISON: dict[str, tuple[object, object]] = {
    "NUL": ("a\x00b", "ab"),
    "a lone surrogate": ("a\ud800b", "ab"),
    "not a number": (float("nan"), "NaN"),
    "no end": (float("-inf"), "-Infinity"),
    "a number beyond 64 bits": (2**64, str(2**64)),
    "a long text": ("x" * 5000, "x" * 4095 + "…"),
    "a secret": ("Authorization: Bearer sk-" + "a" * 40, "Authorization: [masked]"),
    "deep": ([[[[[[[[["bottom"]]]]]]]]], [[[[[[[["…"]]]]]]]]),
    "wide": (list(range(1000)), list(range(256))),
    "keys that poison": ({"a\x00": 1, "password": "hunter2"}, {"a": 1, "password": "[masked]"}),
}
