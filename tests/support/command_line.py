"""The operators' command, run against a live server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from events import keys
from recovery_ops import cli
from tests.support.fleet import today_fleet

WHY = ["--reason", "the provider answers 529"]


class Operator:
    """Somebody at a terminal."""

    def __init__(self, url: str, key: str) -> None:
        self.environ = {"RECOVERY_OPS_URL": url, "RECOVERY_OPS_KEY": key}
        self.said: list[str] = []
        self.on_sleep: Callable[[], None] = lambda: None
        self.types = ""
        """What they type when they are asked; empty: nobody sits there."""

    def run(self, *words: str) -> int:
        self.said.clear()
        return cli.main(
            list(words),
            environ=self.environ,
            say=self.said.append,
            sleep=lambda _: self.on_sleep(),
            ask=self._asked if self.types else None,
        )

    def _asked(self, question: str) -> str:
        self.said.append(question)
        return self.types


@pytest.fixture
def operator(transactional_db: None, live_server: object) -> Iterator[Operator]:
    keys.forget_keys()
    today_fleet()
    yield Operator(str(live_server), keys.create_key("ana", ["read", "act", "settings"], "dev")[1])
    keys.forget_keys()
