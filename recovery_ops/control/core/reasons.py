"""The one rule by which a change needs a reason; forms, API, bulk actions and documents derive from it."""

from __future__ import annotations

from recovery_ops.control.core import checks
from recovery_ops.control.core.actions import ACTIONS
from recovery_ops.control.core.production import is_production

RULE = (
    "Overrides, releases, approvals and notes need one of at least "
    f"{checks.LEAST_REASON_CHARS} characters. So does each change for agents in production, or of more than "
    f"{checks.FEW} objects."
)


def needs_reason(verb: str, environment: str, *, operation: str = "", objects: int = 1) -> bool:
    """Whether a change needs a reason: by its action, else by what it reaches.

    `operation` is the name or match pattern of the breakers, `objects` the number of instances, runs or breakers.
    """
    action = ACTIONS[verb]
    if action.needs_reason or not action.is_for_agents:
        return action.needs_reason
    is_of_many = objects > checks.FEW or (bool(operation) and checks.is_many(environment, operation))
    return is_of_many or is_production(environment)
