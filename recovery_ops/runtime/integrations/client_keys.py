"""The keys of a wrapped model client by their labels: a copy of the client for each. Nothing shows a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.failures.known_keys import hide_keys
from recovery_ops.runtime.guards.credential_labels import check_keys


class ClientKeys:
    """Copies of one client, each with another key; they share its connections."""

    __slots__ = ("_clients",)

    def __init__(self, whose: str, client: Any, keys: Mapping[str, str]) -> None:
        check_keys(whose, keys)
        try:
            self._clients = {label: client.with_options(api_key=key) for label, key in keys.items()}
        except TypeError:
            raise ConfigurationError(
                f"{whose}: a {type(client).__name__} takes no api_key, so it has no credentials; leave them out"
            ) from None
        hide_keys(keys.values())

    def __repr__(self) -> str:
        return f"<keys {', '.join(self._clients)}>"

    @property
    def labels(self) -> list[str]:
        """The labels in the order in which their keys are used."""
        return list(self._clients)

    def client(self, label: str) -> Any:
        """The client that sends this key."""
        return self._clients[label]
