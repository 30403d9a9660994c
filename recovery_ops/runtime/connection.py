"""Puts together what connects a `Recovery` with its server: the way of events out, and of the desired state in."""

from __future__ import annotations

from recovery_ops.runtime.config.stream import ConfigStream
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.files import default_path
from recovery_ops.runtime.process.identity import Identity
from recovery_ops.runtime.telemetry.exporter import Exporter
from recovery_ops.runtime.telemetry.outbox import Outbox
from recovery_ops.runtime.telemetry.pipeline import Telemetry


def open_telemetry(identity: Identity, clock: Clock) -> Telemetry:
    """Events go through an outbox on disk to `<url>/v1/logs`."""
    path = default_path(identity.instance, identity.url, directory=identity.directory)
    return Telemetry(
        identity.instance,
        outbox=Outbox(path, clock=clock),
        clock=clock,
        send=Exporter(identity.url, identity.key, clock=clock),
        group=identity.group,
    )


def open_link(identity: Identity, recovery: Engine, telemetry: Telemetry) -> ConfigStream:
    """The desired state is followed at `<url>/api/v1/desired/stream`, and the last one is kept beside the outbox.

    It is kept by service, not by instance: a process that has a new name at each start must find it, too.
    """
    path = default_path(identity.instance, identity.url, directory=identity.directory)
    link = ConfigStream(
        identity.url,
        identity.key,
        service=identity.instance.service,
        instance=identity.instance.instance,
        group=identity.group,
        store=path.with_name("desired.json"),
        on_desired=recovery.apply,
        emit=telemetry.emit,
        clock=recovery.clock,
        chance=recovery.chance,
    )
    link.start()
    return link
