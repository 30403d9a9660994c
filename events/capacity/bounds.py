"""When many failures are one outage, by environment: what its policy says, kept where those who look can read it."""

from __future__ import annotations

from events.capacity.models import CapacityLook
from recovery_ops.rules.incidents.detection import OutageBounds, outage_bounds_document, parse_outage_bounds


def bounds_of(environment: str) -> OutageBounds:
    """What holds in an environment; the built-in bounds where no policy was ever released. One query."""
    kept = CapacityLook.objects.filter(environment=environment).values_list("bounds", flat=True).first()
    return parse_outage_bounds(kept, "bounds", [])


def keep_bounds(environment: str, bounds: OutageBounds) -> None:
    """What holds from now on, for what is found from now on."""
    CapacityLook.objects.update_or_create(environment=environment, defaults={"bounds": outage_bounds_document(bounds)})
