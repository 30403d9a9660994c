"""What pages cost the server, measured inside of one: `python -m recovery_ops.bench.asked PATH…` prints JSON.

A process of its own, because it is Django with the settings of whoever starts it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from html import unescape
from statistics import median
from typing import Any

ROUNDS = 7


def measure(paths: list[str]) -> dict[str, dict[str, float]]:
    """For each path: queries, median milliseconds of several rounds, bytes as production compresses them."""
    import brotli  # type: ignore[import-untyped]  # it ships no types
    from django.db import connection  # only once Django is set up
    from django.test.utils import CaptureQueriesContext

    client = _signed_in()
    found = {}
    for path in paths:
        answer = client.get(path)  # what is read once is read now
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            client.get(path)
            times.append(1000 * (time.perf_counter() - began))
        with CaptureQueriesContext(connection) as asked:
            client.get(path)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answers {answer.status_code}")
        size = len(brotli.compress(answer.content, quality=5))
        found[path] = {"queries": len(asked), "server_ms": median(times), "html_bytes": size}
    return found


def links(path: str) -> list[str]:
    """Where the first row of a list leads: to a page below it, for a page may begin with a table of something else."""
    page = _signed_in().get(path).content.decode()
    found = re.findall(r'<th scope="row"[^>]*>.*?<a\b[^>]*?\bhref="([^"]+)"', page, re.DOTALL)
    return [one for one in map(unescape, found) if one.startswith(f"{path}/")][:1]


def _signed_in() -> Any:
    from django.contrib.auth import get_user_model
    from django.test import Client

    client = Client(SERVER_NAME="localhost")
    client.force_login(get_user_model().objects.get(username="admin"))
    return client


def main(paths: list[str]) -> None:
    """Measure these; a path that ends in `*` stands for the page of its list's first row."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    django.setup()
    resolved = {path: path if not path.endswith("*") else "".join(links(path[:-1])) for path in paths}
    measured = measure([path for path in resolved.values() if path])
    print(json.dumps({asked: {"path": path, **measured.get(path, {})} for asked, path in resolved.items()}))


if __name__ == "__main__":
    main(sys.argv[1:])
