"""Puts together what connects a `Recovery` with its server: the way of facts out, and of the desired state in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.delivery.outbox import Outbox
from recovery_ops.runtime.delivery.sender import Sender
from recovery_ops.runtime.desired.link import Link
from recovery_ops.runtime.identity import Identity
from recovery_ops.runtime.places import default_path
from recovery_ops.runtime.telemetry import Telemetry

if TYPE_CHECKING:
    from recovery_ops.runtime.recovery import Recovery


def open_telemetry(identity: Identity, clock: Clock) -> Telemetry:
    """Facts go through an outbox on disk to `<url>/v1/logs`."""
    path = default_path(identity.instance, identity.url, directory=identity.directory)
    return Telemetry(
        identity.instance,
        outbox=Outbox(path, clock=clock),
        clock=clock,
        send=Sender(identity.url, identity.key, clock=clock),
        group=identity.group,
    )


def open_link(identity: Identity, recovery: Recovery, telemetry: Telemetry) -> Link:
    """The desired state is followed at `<url>/api/v1/desired/stream`, and the last one is kept beside the outbox.

    It is kept by service, not by instance: a process that has a new name at each start must find it, too.
    """
    path = default_path(identity.instance, identity.url, directory=identity.directory)
    link = Link(
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
