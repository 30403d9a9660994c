"""What pages cost the server, measured inside of one: `python -m recovery_ops.bench.asked PATH…` prints JSON.

A process of its own, because it is Django with the settings of whoever starts it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from html import unescape
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from recovery_ops.bench import yardstick
from recovery_ops.server.garbage_collection import look_for_cycles_less_often

if TYPE_CHECKING:
    from recovery_ops.control.exports.lists import FileList

ROUNDS, UPDATES, EXPORTS = 7, 20, 3
"""How often each is done for the sake of its time …"""
HASTY = "--hasty"
FEWEST = 2
"""… and how often at most where somebody wants to know all else."""
WEEK = timedelta(days=7)
LONG = {
    "runs that met a failure": ("runs", "show=troubled"),
    "all runs": ("runs", "show=all"),
    "open questions": ("escalations", "tab=open"),
    "answered questions": ("escalations", "tab=resolved"),
    "audit log": ("audit", ""),
}
"""What may be too long for an answer, by the list that writes it and what it is asked for …"""
SHORT = ("/breakers", "/agents", "/failures", "/capacity", "/failures/unclassified")
"""… and lists that are always short enough."""


def measure(paths: list[str], most: int = UPDATES) -> dict[str, dict[str, float]]:
    """For each path: queries, median milliseconds of several rounds, `most` of them, bytes as production compresses."""
    import brotli  # type: ignore[import-untyped]  # it ships no types
    from django.db import connection  # only once Django is set up
    from django.test.utils import CaptureQueriesContext

    client = _signed_in()
    found = {}
    for path in paths:
        answer = client.get(path)  # what is read once is read now
        look_for_cycles_less_often()  # as the server does
        times = []
        for _ in range(min(most, ROUNDS)):
            began = time.perf_counter()
            client.get(path)
            times.append(1000 * (time.perf_counter() - began))
        with CaptureQueriesContext(connection) as asked:
            client.get(path)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answers {answer.status_code}")
        size = len(brotli.compress(answer.content, quality=5))
        found[path] = {"queries": len(asked), "server_ms": median(times), "html_bytes": size}
        found[path] |= _updated(client, answer.content.decode(), path, brotli.compress, most)
    return found


def _updated(client: Any, page: str, path: str, compress: Callable[..., bytes], most: int) -> dict[str, float]:
    """What one update of a page costs, all of its live parts together: the 95th percentile of the milliseconds that
    the server takes, and compressed bytes. Empty of a page that does not live.
    """
    parts = [
        (one.group("id"), url if url.startswith("/") else path.partition("?")[0] + url)
        for tag in re.findall(r"<[a-z]+ [^>]*data-refresh-url=[^>]*>", page)
        if (one := re.search(r' id="(?P<id>[^"]+)"', tag)) is not None
        for url in map(unescape, re.findall(r'data-refresh-url="([^"]*)"', tag))
    ]
    if not parts:
        return {}
    times, size = [], 0
    for _ in range(min(most, UPDATES)):
        began = time.perf_counter()
        answers = [client.get(url, headers={"X-Fragment": name}) for name, url in parts]
        times.append(1000 * (time.perf_counter() - began))
        size = sum(len(compress(answer.content, quality=5)) for answer in answers)
    return {"update_ms": quantiles(times, n=20)[-1], "update_bytes": size}


def exported(most: int = EXPORTS, environment: str = "dev") -> dict[str, Any]:
    """How many rows every list writes out as CSV, in how many seconds of processor time (the quickest of several
    rounds), by its name; and how fast this machine is meanwhile (`yardstick`).

    The long lists as an export writes them, a week of runs; the others by their door, where a file is an answer.
    """
    from django.utils import timezone

    from recovery_ops.control.exports.catalogue import LISTS

    now, client = timezone.now(), _signed_in()
    look_for_cycles_less_often()
    written: dict[str, Callable[[], tuple[int, float]]] = {
        label: partial(_written_out, LISTS[name], query, environment, now) for label, (name, query) in LONG.items()
    }
    answered = {path.strip("/").replace("/", " "): partial(_answered, client, path) for path in SHORT}
    return {
        "long": {name: _quickest(write, most) for name, write in written.items()},
        "short": {name: _quickest(answer, most) for name, answer in answered.items()},
        "share": yardstick.measured().share,
    }


def _quickest(write: Callable[[], tuple[int, float]], most: int) -> dict[str, float]:
    rounds = [write() for _ in range(min(most, EXPORTS))]
    return {"rows": rounds[0][0], "cpu_s": min(took_s for _, took_s in rounds)}


def _answered(client: Any, path: str) -> tuple[int, float]:
    began_s = time.process_time()
    answer = client.get(path, {"format": "csv", "range": "7d"})
    took_s = time.process_time() - began_s
    if answer.status_code != 200:
        raise RuntimeError(f"{path} as CSV answers {answer.status_code}")
    return sum(1 for _ in csv.reader(io.StringIO(answer.content.decode("utf-8-sig")))) - 1, took_s


def _written_out(found: FileList, query: str, environment: str, now: datetime) -> tuple[int, float]:
    from django.http import QueryDict

    from events.pages.table_files import CSV, pieces_of
    from recovery_ops.control.exports.lists import Wish

    start, end = (now - WEEK, now) if found.has_range else (None, None)
    wish = Wish(environment=environment, given=QueryDict(query), start=start, end=end, user_id=None, now=now)
    rows = 0
    began_s = time.process_time()

    def every() -> Iterator[Any]:
        nonlocal rows
        for batch in found.batches(wish):
            rows += len(batch.rows)
            yield from batch.rows

    for _ in pieces_of(CSV, found.columns, every(), only=(), address=""):
        pass
    return rows, time.process_time() - began_s


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
    """Measure these; a path that ends in `*` stands for the page of its list's first row. `--hasty` before them all is
    for whoever wants no times.
    """
    import django

    most = FEWEST if paths[:1] == [HASTY] else UPDATES
    paths = paths[1:] if most == FEWEST else paths

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    django.setup()
    resolved = {path: path if not path.endswith("*") else "".join(links(path[:-1])) for path in paths}
    measured = measure([path for path in resolved.values() if path], most)
    found = {asked: {"path": path, **measured.get(path, {})} for asked, path in resolved.items()}
    print(json.dumps({"pages": found, "exported": exported(most)}))


if __name__ == "__main__":
    main(sys.argv[1:])
