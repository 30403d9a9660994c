"""What the runtime says in the application's log: each trouble once, and once more when it is over."""

from __future__ import annotations

import logging


class TroubleLog:
    """Says a thing once until it is over. Thread-safe enough: the worst race says it twice."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[str] = set()

    def once(self, topic: str, message: str, *values: object) -> None:
        """A warning, unless this topic has been warned of and is not over."""
        if topic not in self._said:
            self._said.add(topic)
            self._log.warning(message, *values)

    def over(self, message: str, *topics: str) -> None:
        """The topics are over: say so if anything had been said of them, and begin anew."""
        if self._said.intersection(topics):
            self._said.difference_update(topics)
            self._log.warning(message)
