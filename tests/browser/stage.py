"""A running console with people and a few instances, which say over OTLP what the tests want them to say."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from uuid import UUID

from playwright.sync_api import BrowserContext, Page

from recovery_ops.rules.enums import Category, Evidence, State
from recovery_ops.rules.events import (
    DegradationStarted,
    DesiredStateApplied,
    Escalated,
    Event,
    Record,
    RunStarted,
    SettingsInForce,
)
from recovery_ops.wire import encode, names
from tests.support.agents import manage_each
from tests.support.otlp import attributes, request
from tests.support.processes import Server
from tests.support.stories import counted, failed, heartbeat, moved

INSTANCES = ("r-0", "r-1", "r-2")
BEAT_S = 8.0
CALM_S = 600
"""The instances began to report so long ago: their states are wide enough to point at."""
_numbers = count(1)


@dataclass
class Stage:
    """The server, a key for instances, and the passwords of people by their roles."""

    server: Server
    data: Path
    key: str = ""
    passwords: dict[str, str] = field(default_factory=dict)
    beats: list[str] = field(default_factory=lambda: list(INSTANCES))
    """The instances that say every few seconds that they live."""
    obeyed: dict[str, int] = field(default_factory=dict)
    """The revision that each instance says it obeys."""

    @property
    def prefix(self) -> str:
        """By what the key of the instances is called."""
        return self.key[: len("ro_12345678")]

    def open_doors(self) -> Stage:
        """Make a key, an operator and a viewer."""
        roles = ("operator", "viewer")
        key = "key create --name stage --scope ingest,desired"
        people = [f"account create {role} --role {role} --generate" for role in roles]
        self.key, *passwords = manage_each(self.data, key, *people)
        self.passwords |= dict(zip(roles, passwords, strict=True))
        return self

    def prepare(self) -> Stage:
        """Open the doors and let three instances report a small storm."""
        self.open_doors()
        for instance in INSTANCES:
            calm = [moved(State.CLOSED, breaker=name) for name in ("search_web", "model:large", "crm.update")]
            self.tell(*calm, instance=instance, ago_s=CALM_S)
            for ago_s in range(CALM_S, 30, -30):
                self.tell(heartbeat(), instance=instance, ago_s=ago_s)
            self.tell(heartbeat(), counted(60), instance=instance, ago_s=30)
        overloaded = failed(Category.OVERLOADED, provider="helios", model="large", status_code=529)
        reduced = DegradationStarted(operation="search_web", kind="fallback", reason="breaker open", to_name="cache")
        self.tell(overloaded, overloaded, moved(State.OPEN, breaker="search_web"), reduced, ago_s=20)
        self.tell(RunStarted(name="due diligence"), ago_s=28, run="run-1")
        self.tell(failed(Category.TIMEOUT, "crm.update", fingerprint="f00d", duration_s=0.4), ago_s=26, run="run-1")
        self.tell(Escalated(operation="publish", queue="editors", reason="policy_denied"), ago_s=24, run="run-1")
        return self

    def suffer_outage(self) -> None:
        """Enough failures of one backend that the console calls it an outage, and one that nobody can name."""
        busy = failed(Category.UNKNOWN, "crm.update", evidence=Evidence.NONE, fingerprint="badcafe", message="is busy")
        self.tell(busy, ago_s=8)
        overloaded = failed(Category.OVERLOADED, "model:large", provider="helios", model="large", status_code=529)
        for instance in ("r-0", "r-1"):
            self.tell(*[overloaded] * 5, instance=instance, ago_s=5)
        settings = {"max_retries": 1, "jitter": 0.25, "override": "none"}
        self.tell(SettingsInForce(operation="search_web", revision=0, settings=settings), instance="r-0", ago_s=1)

    @contextmanager
    def beating(self) -> Iterator[Stage]:
        """The instances say every few seconds that they live, or nobody could ask them."""
        is_over = threading.Event()

        def beat() -> None:
            while not is_over.wait(BEAT_S):
                for instance in list(self.beats):
                    self.tell(heartbeat(revision=self.obeyed.get(instance, 0)), instance=instance)

        beater = threading.Thread(target=beat, daemon=True)
        beater.start()
        try:
            yield self
        finally:
            is_over.set()
            beater.join()

    def obey(self, instance: str, revision: int) -> None:
        """An instance says that it obeys a revision of the desired state now, and goes on to say so."""
        self.obeyed[instance] = revision
        self.tell(DesiredStateApplied(revision=revision, config_hash=""), instance=instance)

    def tell(self, *facts: Event, instance: str = "r-0", ago_s: float = 0.0, run: str = "") -> None:
        """Post facts to the real door; they are stored when this returns."""
        at_ns = time.time_ns() - int(ago_s * 1e9)
        records = []
        for fact in facts:
            number = next(_numbers)
            uid = str(UUID(int=(at_ns // 1_000_000 << 80) | 7 << 76 | 2 << 62 | number))
            event = encode(Record(event=fact, uid=uid, sequence_number=number, at_ns=at_ns, run=run))
            records.append(
                {
                    "timeUnixNano": str(at_ns),
                    "severityNumber": event.severity,
                    "eventName": event.event_name,
                    "attributes": attributes(event.attributes),
                }
            )
        resource = {names.SERVICE_NAME: "research", names.SERVICE_INSTANCE_ID: instance, names.SERVICE_VERSION: "2.8.1"}
        body = json.dumps(request(*records, resource=resource)).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        url = f"{self.server.url}/v1/logs"
        with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers), timeout=60) as answer:
            assert json.load(answer) in ({}, {"partialSuccess": {}})

    def sign_in(self, context: BrowserContext, role: str = "operator") -> Page:
        """A page of a person of this role."""
        page = context.new_page()
        page.goto(f"{self.server.url}/sign-in")
        page.get_by_label("Name").fill(role)
        page.get_by_label("Password").fill(self.passwords[role])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{self.server.url}/")
        return page
