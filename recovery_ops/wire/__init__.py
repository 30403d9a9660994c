"""What travels between an agent and the console: events as log events one way, the desired state the other."""

from recovery_ops.wire.desired_state import (
    DesiredInvalid,
    config_hash,
    desired_document,
    override_document,
    parse_desired,
    parse_scope,
    scope_document,
)
from recovery_ops.wire.events import (
    Decoded,
    WireEvent,
    canonical,
    category_of,
    decode,
    encode,
    required_attributes,
    sentence,
    state_of,
)

__all__ = [
    "Decoded",
    "DesiredInvalid",
    "WireEvent",
    "canonical",
    "category_of",
    "config_hash",
    "decode",
    "desired_document",
    "encode",
    "override_document",
    "parse_desired",
    "parse_scope",
    "required_attributes",
    "scope_document",
    "sentence",
    "state_of",
]
