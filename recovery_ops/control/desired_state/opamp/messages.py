"""OpAMP's messages, as far as this server reads and writes them.

Only the fields that matter here are described; protobuf skips the others, and what is sent has no others. Field numbers
are those of the protocol; an enumeration travels like the number that it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto  # type: ignore[import-untyped]
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

UID_BYTES = 16
ACCEPTS_REMOTE_CONFIG = 0x2
"""Of an agent's capabilities: it takes configuration from a server."""
REPORTS_EFFECTIVE_CONFIG = 0x4
"""Of an agent's capabilities: it says what it runs."""
SERVER_CAPABILITIES = 0x1 | 0x2 | 0x4
"""AcceptsStatus, OffersRemoteConfig and AcceptsEffectiveConfig."""
REPORT_FULL_STATE = 1
REQUEST_INSTANCE_UID = 1
"""The flag of an agent's message."""
APPLIED, FAILED = 1, 3
BAD_REQUEST, UNAVAILABLE = 1, 2

_BOOL, _INT32, _INT64, _UINT64, _DOUBLE, _STRING, _BYTES, _MESSAGE = 8, 5, 3, 4, 1, 9, 12, 11
_OPTIONAL, _REPEATED = 1, 3
_PACKAGE = "recovery_ops.opamp"
_FIELDS: dict[str, list[tuple[str, int, int | str, int]]] = {
    "AnyValue": [
        ("string_value", 1, _STRING, _OPTIONAL),
        ("bool_value", 2, _BOOL, _OPTIONAL),
        ("int_value", 3, _INT64, _OPTIONAL),
        ("double_value", 4, _DOUBLE, _OPTIONAL),
    ],
    "KeyValue": [("key", 1, _STRING, _OPTIONAL), ("value", 2, "AnyValue", _OPTIONAL)],
    "AgentDescription": [
        ("identifying_attributes", 1, "KeyValue", _REPEATED),
        ("non_identifying_attributes", 2, "KeyValue", _REPEATED),
    ],
    "RemoteConfigStatus": [
        ("last_remote_config_hash", 1, _BYTES, _OPTIONAL),
        ("status", 2, _INT32, _OPTIONAL),
        ("error_message", 3, _STRING, _OPTIONAL),
    ],
    "AgentDisconnect": [],
    "EffectiveConfig": [("config_map", 1, "AgentConfigMap", _OPTIONAL)],
    "AgentToServer": [
        ("instance_uid", 1, _BYTES, _OPTIONAL),
        ("sequence_num", 2, _UINT64, _OPTIONAL),
        ("agent_description", 3, "AgentDescription", _OPTIONAL),
        ("capabilities", 4, _UINT64, _OPTIONAL),
        ("effective_config", 6, "EffectiveConfig", _OPTIONAL),
        ("remote_config_status", 7, "RemoteConfigStatus", _OPTIONAL),
        ("agent_disconnect", 9, "AgentDisconnect", _OPTIONAL),
        ("flags", 10, _UINT64, _OPTIONAL),
    ],
    "AgentConfigFile": [("body", 1, _BYTES, _OPTIONAL), ("content_type", 2, _STRING, _OPTIONAL)],
    "ConfigEntry": [("key", 1, _STRING, _OPTIONAL), ("value", 2, "AgentConfigFile", _OPTIONAL)],  # of a map
    "AgentConfigMap": [("config_map", 1, "ConfigEntry", _REPEATED)],
    "AgentRemoteConfig": [("config", 1, "AgentConfigMap", _OPTIONAL), ("config_hash", 2, _BYTES, _OPTIONAL)],
    "ServerErrorResponse": [("type", 1, _INT32, _OPTIONAL), ("error_message", 2, _STRING, _OPTIONAL)],
    "AgentIdentification": [("new_instance_uid", 1, _BYTES, _OPTIONAL)],
    "ServerToAgent": [
        ("instance_uid", 1, _BYTES, _OPTIONAL),
        ("error_response", 2, "ServerErrorResponse", _OPTIONAL),
        ("remote_config", 3, "AgentRemoteConfig", _OPTIONAL),
        ("flags", 6, _UINT64, _OPTIONAL),
        ("capabilities", 7, _UINT64, _OPTIONAL),
        ("agent_identification", 8, "AgentIdentification", _OPTIONAL),
    ],
}


class Malformed(ValueError):
    """A body that is no message of an agent, and why."""


@dataclass(frozen=True, slots=True)
class Status:
    """What an agent says of the configuration with this hash; `code` is one of OpAMP's, `text` why it failed."""

    config_hash: bytes
    code: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One message of an agent. `description` is None where the message does not say who it is."""

    uid: bytes
    sequence_number: int
    capabilities: int = 0
    description: Mapping[str, str] | None = None
    status: Status | None = None
    effective: Mapping[str, bytes] | None = None
    """What it says that it runs, by the name of each file; None where the message does not say."""
    is_disconnect: bool = False
    wants_uid: bool = False
    """Whether it asks for an instance uid, because its own is made up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A configuration as it is offered: one JSON document under a name, and the hash that the agent gives back."""

    name: str
    body: bytes
    config_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What an agent is answered; an error goes alone."""

    uid: bytes
    offer: Offer | None = None
    is_full_state_wanted: bool = False
    new_uid: bytes = b""
    """What the agent calls itself from now on."""
    error: tuple[int, str] | None = field(default=None)


def parse(body: bytes) -> Report:
    """Read an agent's message. Raises Malformed."""
    message = _AgentToServer()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise Malformed(f"The body is not an AgentToServer message: {error}.") from error
    if len(message.instance_uid) != UID_BYTES:
        raise Malformed(f"instance_uid has {len(message.instance_uid)} bytes; use {UID_BYTES}.")
    told = message.remote_config_status
    return Report(
        uid=message.instance_uid,
        sequence_number=message.sequence_num,
        capabilities=message.capabilities,
        description=_described(message.agent_description) if message.HasField("agent_description") else None,
        status=Status(told.last_remote_config_hash, told.status, told.error_message)
        if message.HasField("remote_config_status")
        else None,
        effective={entry.key: entry.value.body for entry in message.effective_config.config_map.config_map}
        if message.HasField("effective_config")
        else None,
        is_disconnect=message.HasField("agent_disconnect"),
        wants_uid=bool(message.flags & REQUEST_INSTANCE_UID),
    )


def encode(reply: Reply) -> bytes:
    """Write a server's message."""
    message = _ServerToAgent(instance_uid=reply.uid)
    if reply.error is not None:
        message.error_response.type, message.error_response.error_message = reply.error
        return bytes(message.SerializeToString())
    message.capabilities = SERVER_CAPABILITIES
    message.flags = REPORT_FULL_STATE if reply.is_full_state_wanted else 0
    if reply.new_uid:
        message.agent_identification.new_instance_uid = reply.new_uid
    if reply.offer is not None:
        entry = message.remote_config.config.config_map.add(key=reply.offer.name)
        entry.value.body, entry.value.content_type = reply.offer.body, "application/json"
        message.remote_config.config_hash = reply.offer.config_hash
    return bytes(message.SerializeToString())


def _described(description: Any) -> dict[str, str]:
    """Its attributes as texts; an identifying one wins over another of the same name."""
    told = {}
    for attribute in (*description.non_identifying_attributes, *description.identifying_attributes):
        set_fields = attribute.value.ListFields()
        if set_fields:
            told[attribute.key] = str(set_fields[0][1])
    return told


def _message_classes() -> dict[str, Any]:
    file = FileDescriptorProto(
        name="recovery_ops/opamp.proto", package=_PACKAGE, syntax="proto3"
    )  # whose texts are UTF-8
    for name, fields in _FIELDS.items():
        described = file.message_type.add(name=name)
        if name == "AnyValue":
            described.oneof_decl.add(name="value")  # so that an empty text is told from none
        for field_name, number, kind, label in fields:
            one = described.field.add(name=field_name, number=number, label=label)
            if name == "AnyValue":
                one.oneof_index = 0
            if isinstance(kind, str):
                one.type, one.type_name = _MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                one.type = kind
    # A pool of our own: a client in the same process describes the same messages in the common one.
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}


def empty(name: str) -> Any:
    """An empty message of the protocol, for whoever speaks to this server: `AgentToServer`, `ServerToAgent`."""
    return _classes[name]()


_classes = _message_classes()
_AgentToServer, _ServerToAgent = _classes["AgentToServer"], _classes["ServerToAgent"]
