"""What an environment hides, applied to what travels: the same in the agent, before it sends, and on arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.policy.masking_rules import Masking
from recovery_ops.wire import names
from recovery_ops.wire.events import WireEvent

OUR_NAMES = frozenset(
    {
        *(names.UID, names.SEQUENCE_NUMBER, names.OPERATION, names.QUERY_SOURCE, names.IS_FOREGROUND, names.RUN),
        *(names.POLICY_VERSION, names.DERIVED_FROM, names.REFINED_FROM, names.SERVICE_NAME, names.SERVICE_INSTANCE_ID),
        *(names.SERVICE_VERSION, names.ENVIRONMENT_NAME, names.GROUP),
        *names.ATTRIBUTES.values(),
        *names.OWN_ATTRIBUTES.values(),
        *names.ATTRIBUTE_ALIASES,
    }
)
"""Names that are ours. No pattern hides a name of these, or nobody could read the event."""
FREE_TEXTS = frozenset(
    names.ATTRIBUTES[field] for field in ("message", "reason", "proposal", "warning", "request_id", "call_id", "name")
)
"""Of ours those that nothing is decided by: they may be hidden whole."""
_AS_SENT = frozenset({names.UID, names.SEQUENCE_NUMBER})
"""What tells one event from another; never stored as a text."""


def fault_of_hidden(attribute: str) -> str:
    """Why an attribute cannot be hidden whole; empty where it can."""
    if attribute.lower() in OUR_NAMES - FREE_TEXTS or attribute.lower().startswith(names.FOLDED_PREFIX):
        may_be = ", ".join(sorted(FREE_TEXTS))
        return f"{attribute} is what events are counted and folded by; of ours only {may_be} may be hidden whole"
    return ""


def is_hidden(masking: Masking, attribute: str) -> bool:
    """Whether no value of this attribute is kept."""
    return masking.hides(attribute) and not fault_of_hidden(attribute)


def masked_event(event: WireEvent, masking: Masking) -> WireEvent:
    """The event without what the rules hide."""
    if not masking:
        return event
    attributes = {
        name: value if name in _AS_SENT else MASK if is_hidden(masking, name) else _masked(value, masking)
        for name, value in event.attributes.items()
    }
    return replace(event, attributes=attributes, body=masking.masked(event.body))


def _masked(value: Any, masking: Masking) -> Any:
    if isinstance(value, str):
        return masking.masked(value)
    if isinstance(value, Mapping):
        return {
            name if name in OUR_NAMES else masking.masked(str(name)): (
                MASK if is_hidden(masking, str(name)) else _masked(part, masking)
            )
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(part, masking) for part in value]
    return value
