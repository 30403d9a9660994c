"""The demonstration's operator: works one shift at the console through its API, and says in its log what it did.

RECOVERY_OPS_URL=… RECOVERY_OPS_DEMO_OPERATOR_KEY=… python -m recovery_ops.demo.operator
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import urllib3

from recovery_ops.demo.shift import Document, Shift

LOOKS_EVERY_S = 5.0
_TIMEOUT_S = 10.0


class NotAnswered(Exception):
    """The console did not answer, or not as it should; the text says how."""


class Console:
    """The API of one console, with one key."""

    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url.rstrip('/')}/api/v1"
        self._pool = urllib3.PoolManager(retries=False, timeout=_TIMEOUT_S)
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def get(self, path: str, **query: str) -> Document:
        """The answer to a question. Raises NotAnswered."""
        status, answer = self._ask("GET", path, fields=query)
        if status != 200:
            raise NotAnswered(f"{path} was answered {status}")
        return answer

    def post(self, path: str, **body: Any) -> bool:
        """Do it, or be refused; the log says which. Raises NotAnswered."""
        status, answer = self._ask("POST", path, body=json.dumps(body))
        refused = [one["problem"]["detail"] for one in answer.get("results", []) if "problem" in one]
        said = answer.get("detail", status) if status >= 300 else " ".join(refused) or "done"
        print(f"{path}: {said}", flush=True)
        return status < 300 and not refused

    def _ask(self, method: str, path: str, **what: Any) -> tuple[int, Document]:
        try:
            answer = self._pool.request(method, f"{self._url}/{path}", headers=self._headers, **what)
            said: Document = json.loads(answer.data)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise NotAnswered(f"{path}: {type(error).__name__}") from None
        return answer.status, said


def _end_with_input(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main() -> None:
    """Work until the shift is over or standard input ends."""
    console = Console(os.environ["RECOVERY_OPS_URL"], os.environ["RECOVERY_OPS_DEMO_OPERATOR_KEY"])
    shift = Shift(console, os.environ.get("RECOVERY_OPS_DEMO_PERSON", ""))
    ended = threading.Event()
    threading.Thread(target=_end_with_input, args=(ended,), daemon=True).start()
    began = time.monotonic()
    while shift.to_do and not ended.wait(LOOKS_EVERY_S):
        try:
            shift.look(time.monotonic() - began)
        except NotAnswered as error:
            print(error, flush=True)


if __name__ == "__main__":
    main()
