"""The description of an OpAMP client: the environment in it has no effect, that of the key has."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client
from opentelemetry._opamp.proto import anyvalue_pb2, opamp_pb2

from events import keys
from events.models import Agent
from recovery_ops.control.desired_state.opamp.models import OpampAgent
from tests.support.engines import store

__all__ = ["store"]

NAMES = ("deployment.environment.name", "deployment.environment", "environment", "recovery.environment")


@pytest.mark.parametrize("part", ["identifying_attributes", "non_identifying_attributes"])
def test_environment_in_description_is_ignored(store: None, part: str) -> None:
    token = keys.create_key("opamp", ["desired"], "dev")[1]
    report = opamp_pb2.AgentToServer(instance_uid=uuid.uuid4().bytes, capabilities=0x2001 | 0x2)
    said = {"service.name": "research", "service.instance.id": "r-0", **dict.fromkeys(NAMES, "prod")}
    pairs = [
        anyvalue_pb2.KeyValue(key=name, value=anyvalue_pb2.AnyValue(string_value=value)) for name, value in said.items()
    ]
    getattr(report.agent_description, part).extend(pairs)
    answer = Client().post(
        "/v1/opamp",
        report.SerializeToString(),
        content_type="application/x-protobuf",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 200
    offer = opamp_pb2.ServerToAgent.FromString(answer.content)
    assert b'"environment":"prod"' not in offer.remote_config.config.config_map["desired.json"].body.replace(b" ", b"")
    assert set(OpampAgent.objects.values_list("environment", flat=True)) == {"dev"}
    assert set(Agent.objects.values_list("environment", flat=True)) == {"dev"}
