"""Serves static files compressed where no `collectstatic` has run: the checkout is served as it lies, plotly included.

Each file is compressed once, when a server first starts with it, and kept in the data directory; half a second for
plotly's 4.8 MB, which then travel as 1.3.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]  # it ships no types
from django.conf import settings
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]  # it ships no types
from whitenoise.responders import StaticFile  # type: ignore[import-untyped]  # it ships no types

_SUFFIXES = frozenset({".js", ".css", ".svg"})
_LEAST_BYTES = 512
_SQUEEZE: dict[str, Callable[[bytes], bytes]] = {
    "br": lambda content: bytes(brotli.compress(content, quality=6)),  # best quality takes twelve seconds for plotly
    "gzip": lambda content: gzip.compress(content, 6, mtime=0),  # browsers ask for brotli over TLS or localhost only
}


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # it ships no types
    """WhiteNoise, and in the embedded mode with compressed forms that it would else expect beside each file."""

    def get_static_file(self, path: str, url: str, stat_cache: Any = None) -> StaticFile:
        """As WhiteNoise does it, with the forms at hand."""
        plain = super().get_static_file(path, url, stat_cache)
        if not settings.EMBEDDED:
            return plain
        forms = compressed_forms(Path(path), settings.DATA_DIR)
        if not forms:
            return plain
        headers = [(name, value) for name, value in plain.alternatives[-1][2] if name not in _OWN]
        return StaticFile(path, headers, encodings={name: str(form) for name, form in forms.items()})


_OWN = frozenset({"Content-Length", "Content-Encoding"})
"""Headers that each form has for itself."""


def compressed_forms(path: Path, data: Path) -> dict[str, Path]:
    """The compressed forms of a file by encoding, made where they are missing; none where they cannot be kept."""
    known = path.stat()
    if path.suffix not in _SUFFIXES or known.st_size < _LEAST_BYTES or not data.is_dir():
        return {}
    folder = data / "static-compressed"
    name = hashlib.blake2b(f"{path}:{known.st_size}:{known.st_mtime_ns}".encode(), digest_size=16).hexdigest()
    forms = {encoding: folder / f"{name}.{encoding}" for encoding in _SQUEEZE}
    with suppress(OSError):
        for encoding, form in forms.items():
            if not form.exists():
                _write(form, _SQUEEZE[encoding](path.read_bytes()))
        return forms
    return {}


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: two processes may start at once."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).replace(path)
