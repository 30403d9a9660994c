"""The migration that fills in where instances run, from the heartbeats that are there."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps

from events.models import Agent
from recovery_ops.rules.facts import InstanceHeartbeat
from tests.support.stories import Story


def test_the_newest_heartbeat_of_each_instance_says_it(engine: str) -> None:
    beat = InstanceHeartbeat(
        interval_s=15.0, uptime_s=60.0, revision=1, config_hash="", schema_version=1, status="running"
    )
    story = Story()
    for instance, at, region in (("a", 90, "us"), ("a", 60, "eu"), ("b", 60, "")):
        story.tell(beat, at=at, instance=instance, region=region)
    story.tell(beat, at=8 * 86_400, instance="old", region="eu").store()
    Agent.objects.update(region="")
    import_module("events.migrations.0027_regions_told").forwards(apps, None)
    assert dict(Agent.objects.values_list("instance", "region")) == {"a": "eu", "b": "", "old": ""}
