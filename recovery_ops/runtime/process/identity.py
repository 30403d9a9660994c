"""Who this process is and where its server is, from arguments or from the environment."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from recovery_ops.rules.events import Instance
from recovery_ops.rules.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pathlib import Path

VARIABLES: dict[str, tuple[str, str]] = {
    "URL": (
        "`OTEL_EXPORTER_OTLP_ENDPOINT`",
        "address of the console; without one the default policy applies, and nothing is sent",
    ),
    "KEY": ("`OTEL_EXPORTER_OTLP_HEADERS`", "key of the agent, with the permissions `ingest` and `desired`"),
    "SERVICE": ("`OTEL_SERVICE_NAME`, else `agent`", 'name of the agent; `Recovery("name")` wins'),
    "INSTANCE": ("host name and process id", "name of this process"),
    "GROUP": ("none", "group of the agent, for policies and overrides of one group"),
    "VERSION": ("none", "version of the agent, for charts and rollouts"),
    "ENVIRONMENT": ("none", "environment on the events; the environment of the key decides where they are stored"),
    "DIR": (
        "state directory of the system",
        "directory of the outbox, the last policy, and the checkpoints of workflows",
    ),
    "OFF": ("0", "1: guards call straight through, and nothing is recorded"),
}
"""Environment variables of an agent without `RECOVERY_OPS_`: default and meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process on the wire, and its server; `url` and `key` are empty where there is none."""

    instance: Instance
    group: str = ""
    url: str = ""
    key: str = ""
    directory: Path | None = None

    def of_child(self, mark: str) -> Identity:
        """The identity of a forked child: the same service, an instance of its own."""
        return replace(self, instance=replace(self.instance, instance=self.instance.instance + mark))

    @staticmethod
    def found(
        *,
        service: str | None,
        instance: str | None,
        url: str | None,
        key: str | None,
        environment: str | None,
        version: str | None,
        group: str | None,
        directory: Path | str | None,
    ) -> Identity:
        """What was said, else `RECOVERY_OPS_*`, else `OTEL_*`, else what the machine says of itself."""
        import socket  # here and not above, with the next: whoever only imports the runtime needs neither
        from pathlib import Path

        otel = _otel_resource()
        headers = _pairs(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
        bearer = {name.lower(): value for name, value in headers.items()}.get("authorization", "")
        said = directory or os.environ.get("RECOVERY_OPS_DIR") or None
        return Identity(
            instance=Instance(
                service=service
                or os.environ.get("RECOVERY_OPS_SERVICE")
                or os.environ.get("OTEL_SERVICE_NAME")
                or otel.get("service.name")
                or "agent",
                instance=instance
                or os.environ.get("RECOVERY_OPS_INSTANCE")
                or otel.get("service.instance.id")
                or f"{socket.gethostname()}-{os.getpid()}",
                version=version or os.environ.get("RECOVERY_OPS_VERSION") or otel.get("service.version", ""),
                environment=environment
                or os.environ.get("RECOVERY_OPS_ENVIRONMENT")
                or otel.get("deployment.environment.name", ""),
            ),
            group=group or os.environ.get("RECOVERY_OPS_GROUP") or otel.get("recovery.group", ""),
            url=(url if url is not None else os.environ.get("RECOVERY_OPS_URL") or _otel_endpoint()).rstrip("/"),
            key=key or os.environ.get("RECOVERY_OPS_KEY") or bearer.removeprefix("Bearer ").strip(),
            directory=Path(said) if said else None,
        )


def _otel_endpoint() -> str:
    return os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")


def _otel_resource() -> dict[str, str]:
    return _pairs(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))


def _pairs(text: str) -> dict[str, str]:
    """`a=1,b=2` with percent-encoded values, as OpenTelemetry's variables are written."""
    from urllib.parse import unquote

    found = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if separator:
            found[name.strip()] = unquote(value.strip())
    return found
