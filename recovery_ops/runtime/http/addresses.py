"""Checks a server's address and key when they are given, so that a slip is told at once and not in a thread's log."""

from __future__ import annotations

from urllib.parse import urlsplit


def checked_url(url: str) -> str:
    """The server's address without a slash at its end; ValueError says what an address looks like."""
    text = url.strip().rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not the address of a server: give it as https://host[:port][/path]")
    return text


def checked_key(key: str) -> str:
    """The key without blanks around it; ValueError if it cannot be a header's value. The text never shows the key."""
    text = key.strip()
    if not all(" " < character <= "~" for character in text):
        raise ValueError("the key has characters that no key has: give it as `manage.py key create` printed it")
    return text
