"""The intake's page, its two acts and the command: what could not be taken in is seen, and mended by whoever may."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from events.models import Fact, KnownName, Quarantine, Tally
from events.quarantine import set_aside
from events.records import Intake
from events.refused import Refused
from recovery_ops.control.models import AuditEntry
from recovery_ops.control.roles import Role
from tests.support.intake import NOW_US, mended, refused
from tests.support.pages import HOSTILE, REASON, signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

PATH = "/agents/intake"


def test_an_empty_intake_says_that_nothing_is_missing() -> None:
    said = text_of(signed_in().get(PATH))
    assert "Everything that came to dev was taken in" in said
    assert "Nothing is set aside" in said
    assert "Operations 0 2,000 room for more 0" in said


def test_what_is_set_aside_is_shown_with_its_reason_and_nothing_of_it_runs() -> None:
    refused(2)
    set_aside([Intake("dev", NOW_US, refused=[Refused("is broken", HOSTILE.encode())])])
    refused(environment="prod")
    page = signed_in().get(PATH)
    said = text_of(page)
    assert "3 records of dev could not be taken in" in said
    assert "has 1101 attributes; 1024 are the most" in said
    assert HOSTILE not in page.content.decode()
    assert "3 set aside" in said or "set aside 3" in said


def test_an_operator_takes_them_in_again_after_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(3)
    client = signed_in()
    first = str(Quarantine.objects.order_by("id")[0].pk)
    answer = client.post(PATH, {"reason": REASON, "key": "k-1", "act": "replay", "line": first})
    assert (answer.status_code, Quarantine.objects.count(), Fact.objects.count()) == (303, 3, 0)
    mended(monkeypatch)
    for _ in range(2):  # the same form sent twice is one act
        assert client.post(PATH, {"reason": REASON, "key": "k-2", "act": "replay", "line": first}).status_code == 303
    assert (Quarantine.objects.count(), Fact.objects.count()) == (2, 1)
    client.post(PATH, {"reason": REASON, "key": "k-3", "act": "replay"})
    assert (Quarantine.objects.count(), Fact.objects.count()) == (0, 3)
    entry = AuditEntry.objects.order_by("-number")[0]
    assert (entry.verb, entry.reason, entry.revision) == ("quarantine.replay", REASON, None)
    assert entry.after == {"stored": 2, "settled": 2, "left": 0}
    assert "ana replayed the quarantine" in text_of(client.get("/audit")).replace("person, web ", "")


def test_dropped_records_are_gone_and_counted() -> None:
    refused(2)
    assert signed_in().post(PATH, {"reason": REASON, "key": "k", "act": "drop"}).status_code == 303
    assert Quarantine.objects.count() == 0
    assert Tally.objects.get(name="dropped").count == 2
    assert AuditEntry.objects.get().verb == "quarantine.drop"


def test_without_a_reason_nothing_happens_and_the_form_says_why() -> None:
    refused()
    answer = signed_in().post(PATH, {"reason": "short", "key": "k", "act": "drop"})
    assert answer.status_code == 422
    assert "at least 10 characters" in text_of(answer)
    assert Quarantine.objects.count() == 1


def test_who_may_only_look_is_offered_nothing_and_refused() -> None:
    refused()
    client = signed_in(Role.VIEWER)
    assert "Take in again" not in text_of(client.get(PATH))
    assert client.post(PATH, {"reason": REASON, "key": "k", "act": "drop"}).status_code == 403
    assert Quarantine.objects.count() == 1


def test_names_that_found_no_place_are_told(settings: Any) -> None:
    settings.MOST_NAMES = {**settings.MOST_NAMES, "operation": 10}
    KnownName.objects.bulk_create(
        KnownName(environment="dev", kind="operation", name=f"op-{number}", seen_day=1) for number in range(10)
    )
    Tally.objects.create(environment="dev", name="operation", count=1234, last_us=NOW_US)
    said = text_of(signed_in().get(PATH))
    assert "too many operations: new ones are shown as (other)" in said
    assert "Operations 10 10 full: new names are shown as (other) 1,234" in said


def command(*words: str) -> str:
    out = StringIO()
    call_command("quarantine", *words, stdout=out, stderr=out)
    return out.getvalue()


def test_the_command_lists_replays_and_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nothing is set aside in dev" in command("list")
    refused(2)
    assert command("list").count("has 1101 attributes") == 2
    assert command("replay", "--reason", REASON) == "0 taken in (0 new facts), 2 still set aside.\n"
    assert "replayed 1 times" in command("list")
    mended(monkeypatch)
    line = str(Quarantine.objects.order_by("id")[0].pk)
    assert command("replay", line, "--reason", REASON) == "1 taken in (1 new facts), 0 still set aside.\n"
    assert command("drop", "--reason", REASON) == "1 dropped.\n"
    with pytest.raises(CommandError, match="at least 10 characters"):
        command("drop", "--reason", "no")
    assert AuditEntry.objects.filter(channel="cli").count() == 3
