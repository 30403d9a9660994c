"""Every fault there is, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recovery_ops.drill import clocks, deliveries, deploying, faults, floods, intent, poisoning
from recovery_ops.drill.faults import Drill
from recovery_ops.drill.history import History


@dataclass(frozen=True, slots=True)
class Fault:
    """A name of the project's list, what is done, and whether only PostgreSQL can suffer it.

    One that is `small` sends what it sends; the others share what is left of the number of events. One that is an
    `outage` says for how long nobody was served.
    """

    name: str
    words: str
    act: Callable[[Drill, History], None]
    needs_postgres: bool = False
    is_small: bool = False
    is_outage: bool = False


FAULTS = (
    Fault("J1", "servers killed", faults.killed_servers, is_outage=True),
    Fault("J2", "database killed", faults.killed_database, needs_postgres=True, is_outage=True),
    Fault("J3", "connections dropped", faults.dropped_connections, needs_postgres=True, is_outage=True),
    Fault("J4", "disk full", faults.full_disk, is_outage=True),
    Fault("J7", "answers lost", deliveries.lost_answers),
    Fault("J8", "copies, shuffled and late", deliveries.shuffled_copies, is_small=True),
    Fault("J9", "clocks wrong", clocks.wrong_clocks),
    Fault("J10", "records poisoned", poisoning.poisoned_records),
    Fault("J11", "bodies that explode", floods.bombs, is_small=True),
    Fault("J12", "senders that drip", floods.dripping_senders),
    Fault("J13", "names without end", floods.endless_names),
    Fault("J14", "two people at once", intent.two_people, is_small=True),
    Fault("J15", "policies edited, servers killed", intent.policy_edits, is_small=True),
    Fault("J16", "agents killed", deliveries.killed_agents, is_small=True),
    Fault("J17", "deployed in turn, with a migration", deploying.deploys, needs_postgres=True, is_outage=True),
)
