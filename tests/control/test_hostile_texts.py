"""Texts that turn a screen around, colour a terminal or begin a line of their own, over HTTP: they do none of it.

In every text that an agent can send: pages hold no such sign, a row of a file is one line, and so is a line of a log.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone

from events import keys
from events.ingest.cardinality import known_names
from events.ingest.commits import writer
from events.ingest.masking import forget_masking
from events.models import Fact, Quarantine
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.roles import Role
from recovery_ops.wire import names
from tests.support.otlp import Door, record, request
from tests.support.pages import PAGES, signed_in

MARKS = {
    "override": "\u202e",
    "isolate": "\u2066",
    "colour": "\x1b[31m",
    "return": "\r\n",
    "end": "\x00",
    "separator": "\u2028",
    "mark": "\u200f",
    "nothing": "\u200b",
    "control": "\x9b31m",
    "bell": "\x07",
}
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
FORGED = "CRITICAL forged: root signed in"
MARKUP = "<i data-forged>"
pytestmark = [pytest.mark.django_db(transaction=True)]


def hostile(number: int = 0) -> str:
    """A text with every mark, and a line that is not one of ours."""
    return f"h{number}{MARKUP}" + "x".join(MARKS.values()) + FORGED


@pytest.fixture
def door() -> Iterator[Door]:
    for remembered in (keys.forget_keys, known_names.forget, forget_masking):
        remembered()
    yield Door(keys.create_key("tests", ["ingest"], "dev")[1])
    writer.close(timeout_s=10)
    keys.forget_keys()


def send_all(door: Door) -> None:
    """A failure, a transition, a degradation, a question and a run, in which all texts are hostile."""
    ours = {name: hostile() for name in names.ATTRIBUTES.values() if name not in _DECIDED_BY}
    ours |= {names.OPERATION: hostile(), names.QUERY_SOURCE: hostile(), names.RUN: hostile(), hostile(): hostile()}
    resource = {key: hostile() for key in ("service.name", "service.instance.id", "service.version", "recovery.group")}
    decided = {"recovery.failure.category": "timeout", "recovery.breaker.state": "open"}
    events = (
        "failure_classified",
        "breaker_state_changed",
        "degradation_started",
        "escalated",
        "run_started",
        "exhausted",
    )
    records = [record(f"recovery.{event}", given=ours | decided, body={"stringValue": hostile()}) for event in events]
    records.append(record(hostile(), given=ours, severityNumber=17))
    assert door.post(json=request(*records, resource=resource)).status_code == 200
    assert door.post(f"rubbish {hostile()}".encode(), headers={"content-type": "application/json"}).status_code == 400


_DECIDED_BY = {names.ATTRIBUTES["category"], names.ATTRIBUTES["state"], names.ATTRIBUTES["previous_state"]}


def answers(client: Client) -> Iterator[tuple[str, str, str]]:
    """Every page, every link of it that names one of the hostile things, and every file: address, type, content."""
    seen: set[str] = set()
    waiting = list(PAGES.values())
    while waiting:
        address = waiting.pop(0)  # every page before its links
        if address in seen or len(seen) > 200:
            continue
        seen.add(address)
        answer = client.get(address)
        content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
        text = content.decode()
        yield address, answer.headers.get("Content-Type", ""), text
        links = re.findall(r'href="([^"]*)"', text)
        waiting += [one.replace("&amp;", "&") for one in links if one.startswith("/") and "h0" in one]
        waiting += [address.partition("?")[0] + "?format=csv"] if "format=csv" in text else []


@pytest.mark.usefixtures("now")
def test_no_page_and_no_file_holds_a_sign_that_turns_or_ends_a_line(door: Door) -> None:
    send_all(door)
    open_escalations("dev", timezone.now())
    assert Escalation.objects.exists()
    assert Fact.objects.filter(operation__contains=FORGED).count() >= 6
    found: dict[str, list[str]] = {}
    files = told = 0
    for address, kind, text in answers(signed_in(Role.ADMIN)):
        if signs := FORBIDDEN.findall(text):
            found[address] = signs
        if kind.startswith("text/html") and MARKUP in text:
            found[address] = ["markup"]
        told += FORGED in text
        if kind.startswith("text/csv"):
            files += 1
            rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))
            if len(text.rstrip("\r\n").splitlines()) != len(rows):
                found[address] = ["a row of several lines"]
    assert found == {}
    assert told > 5, "texts that are shown nowhere prove nothing"
    assert files > 1


def test_what_was_set_aside_is_shown_without_them(door: Door) -> None:
    send_all(door)
    line = Quarantine.objects.get(reason__startswith="The body")
    shown = signed_in(Role.ADMIN).post("/agents/intake", {"act": "show", "line": str(line.pk)}).content.decode()
    assert FORGED in shown
    assert FORBIDDEN.findall(shown) == []


def test_a_line_of_a_log_is_one_line(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="django.request")  # production tells errors alone
    send_all(door)
    client = signed_in(Role.ADMIN)
    for address in ("/breakers/", "/runs/", "/failures/", "/", "/api/v1/runs/", "/api/v1/", "/v1/"):
        client.get(f"{address}{quote(hostile())}")
    client.get("/", headers={"User-Agent": "x" + MARKS["colour"]})
    lines = [one.getMessage() for one in caplog.records if not one.name.startswith(("httpx", "asyncio"))]
    assert any("forged" in one for one in lines), "what is never told proves nothing"
    assert [one for one in lines if FORBIDDEN.search(one) or "\n" in one or "\r" in one] == []


def test_the_audit_log_says_it_on_one_line(door: Door) -> None:
    client: Any = signed_in(Role.ADMIN)
    reason = f"a reason of many words {hostile()}"
    answer = client.post("/api/v1/breakers/none/trip", {"reason": reason, "ahead": True}, "application/json")
    assert answer.status_code in (200, 400)
    assert FORBIDDEN.findall(client.get("/audit").content.decode()) == []
    assert FORBIDDEN.findall(client.get("/audit?format=csv").content.decode()) == []
