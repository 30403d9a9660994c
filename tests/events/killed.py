"""Sweeps, and kills itself at a moment: `python -m tests.events.killed`, told on standard input, a line for each.

A line is a JSON object: `url` of a PostgreSQL, `now` (ISO), and the number of the `moment`: each is after a statement
that changes something and before its commit, or before the first statement of a transaction. It is done by a child
that is killed as by `kill -9`; the answer is a line, what it was killed at, or nothing when the sweep ended before.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import datetime
from itertools import count
from typing import Any

import django
from django.db import connection

CHANGES = ("ALTER", "CREATE", "INSERT", "DROP", "DELETE")


def sweep(url: str, now: str, moment: int) -> None:
    """In the child: what it is killed at is written to standard output first."""
    from events.store.retention import sweep_facts
    from tests.support.stores import store_at

    moments = count()

    def until(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        _die_if(sql.startswith("SET LOCAL") and next(moments) == moment, sql)
        result = execute(sql, params, many, context)
        _die_if(sql.startswith(CHANGES) and next(moments) == moment, sql)
        return result

    with store_at(url), connection.execute_wrapper(until):
        sweep_facts(datetime.fromisoformat(now))
    os.write(1, b"\n")


def _die_if(is_time: bool, sql: str) -> None:
    if is_time:
        os.write(1, f"{' '.join(sql.split())[:200]}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Fork for each line; nothing here has a thread or a connection that a child would inherit."""
    django.setup()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sweep(**json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
            os.write(1, b"failed\n")


if __name__ == "__main__":
    main()
