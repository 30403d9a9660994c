"""Stock OpAMP clients that follow the desired state: `stock_follower.py URL KEY COUNT`, until stdin ends.

The published client of OpenTelemetry, with nothing of ours. Says `INSTANCE REVISION HASH` for each document that one
has taken on. Ends with 3 where the client is not installed.
"""

from __future__ import annotations

import os
import sys
from typing import Any

try:
    from opentelemetry._opamp.agent import OpAMPAgent
    from opentelemetry._opamp.callbacks import MessageData, OpAMPCallbacks
    from opentelemetry._opamp.client import OpAMPClient
    from opentelemetry._opamp.proto import opamp_pb2
except ImportError:
    sys.exit(3)

SERVICE = "drill"
_BEAT_S = 0.3
_AGAIN_S = 0.1
_PATIENCE_MS = 10_000


class Following(OpAMPCallbacks):
    """Takes on whatever it is offered, and says so."""

    def __init__(self, instance: str) -> None:
        self._instance = instance

    def on_message(self, agent: OpAMPAgent, client: OpAMPClient, message: MessageData) -> None:
        """Say what was offered to whoever started us, and that it is obeyed to the server."""
        offered = message.remote_config
        if offered is None:
            return
        ((_, document),) = client.decode_remote_config(offered)
        read: dict[str, Any] = dict(document)
        os.write(sys.stdout.fileno(), f"{self._instance} {read['revision']} {read['config_hash']}\n".encode())
        told = client.update_remote_config_status(offered.config_hash, opamp_pb2.RemoteConfigStatuses_APPLIED, "")
        if told is not None:
            agent.send(client.build_remote_config_status_response_message(told))


def main(url: str, key: str, count: str) -> None:
    """Follow."""
    agents = [_started(url, key, f"stock-{number}") for number in range(int(count))]
    sys.stdin.read()
    for agent in agents:
        agent.stop()


def _started(url: str, key: str, instance: str) -> OpAMPAgent:
    client = OpAMPClient(
        endpoint=f"{url}/v1/opamp",
        headers={"Authorization": f"Bearer {key}"},
        timeout_millis=_PATIENCE_MS,
        agent_identifying_attributes={"service.name": SERVICE, "service.instance.id": instance},
    )
    agent = OpAMPAgent(interval=_BEAT_S, callbacks=Following(instance), client=client, initial_backoff=_AGAIN_S)
    agent.start()
    return agent


if __name__ == "__main__":
    main(*sys.argv[1:])
