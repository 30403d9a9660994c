"""Serves plotly.js from the pinned Python package: nothing from a CDN, nothing committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage
from django.core.files.storage import FileSystemStorage

_SCRIPT = "plotly.min.js"
_PREFIX = "plotly"


class PlotlyFinder(BaseFinder):
    """Yields `plotly/plotly.min.js` alone; a STATICFILES_DIRS entry would collect 9 MB of widget code beside it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        spec = find_spec("plotly")  # finds the package without importing it
        where = spec.submodule_search_locations if spec else None
        self.storage = FileSystemStorage(location=Path(where[0]) / "package_data" if where else None)
        self.storage.prefix = _PREFIX  # type: ignore[attr-defined]  # what collectstatic puts before each name

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        """Return where the script lies; nothing, as Django's finders say it, for any other path."""
        if path != f"{_PREFIX}/{_SCRIPT}":
            return []
        found = self.storage.path(_SCRIPT)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        """Yield the one file, with the storage that holds it."""
        yield _SCRIPT, self.storage
