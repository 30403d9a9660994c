"""The intake's page, its two acts and the command: what could not be taken in is seen, and mended by whoever may."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from events.ingest.cardinality import Kind, Standing
from events.ingest.quarantine import set_aside
from events.ingest.records import Intake
from events.models import Fact, KnownName, Quarantine, Tally
from events.otlp.refused import Refused
from events.otlp.remarks import WORDS, Remark
from recovery_ops.control.audit.wording import name_of, verb_of
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.intake import NOW_US, mended, refused
from tests.support.pages import HOSTILE, REASON, signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

PATH = "/agents/intake"


def standing_of(page: Any, kind: Kind) -> Standing:
    """How full a kind of name is, as the page shows it."""
    standings: list[Standing] = [one.standing for one in page.context["names"]]
    return next(one for one in standings if one.kind is kind)


def test_an_empty_intake_says_that_nothing_is_missing() -> None:
    page = signed_in().get(PATH)
    assert (page.context["total"], page.context["lines"]) == (0, [])
    operations = standing_of(page, Kind.OPERATION)
    assert (operations.known, operations.most, operations.is_full, operations.folded) == (0, 2000, False, 0)


def test_what_is_set_aside_is_shown_with_its_reason_and_nothing_of_it_runs() -> None:
    refused(2)
    set_aside([Intake("dev", NOW_US, refused=[Refused("is broken", HOSTILE.encode())])])
    refused(environment="prod")
    page = signed_in().get(PATH)
    assert page.context["total"] == 3
    reasons = [one.reason for one in page.context["lines"]]
    assert sorted(re.findall(r"\d+", reason) for reason in reasons) == [[], ["1101", "1024"], ["1101", "1024"]]
    assert [reason for reason in reasons if reason not in text_of(page)] == []
    assert HOSTILE not in page.content.decode()
    assert dict(page.context["tallies"])["quarantined"] == 3


def test_remarks_are_counted_by_reason() -> None:
    Tally.objects.create(environment="dev", name=Remark.MISSING, count=7)
    tallies = dict(signed_in().get(PATH).context["tallies"])
    assert [tallies.get(WORDS[one]) for one in (Remark.MISSING, Remark.WRONG_ID)] == [7, None]


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
    assert f"{verb_of(entry)} {name_of(entry)}" in text_of(client.get("/audit"))


def test_dropped_records_are_gone_and_counted() -> None:
    refused(2)
    assert signed_in().post(PATH, {"reason": REASON, "key": "k", "act": "drop"}).status_code == 303
    assert Quarantine.objects.count() == 0
    assert Tally.objects.get(name="dropped").count == 2
    assert AuditEntry.objects.get().verb == "quarantine.drop"


@pytest.mark.parametrize("line", ["9" * 25, "\uff11", "-1", "all", ""])
def test_unreadable_record_number_drops_nothing(line: str) -> None:
    refused(2)
    assert signed_in().post(PATH, {"reason": REASON, "key": "k", "act": "drop", "line": line}).status_code == 404
    assert Quarantine.objects.count() == 2


def test_without_a_reason_nothing_happens_and_the_form_says_why() -> None:
    refused()
    answer = signed_in().post(PATH, {"reason": "short", "key": "k", "act": "drop"})
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["reason"]
    assert Shown(answer).within("id", "reason-error").root.text
    assert Quarantine.objects.count() == 1


def test_who_may_only_look_is_offered_nothing_and_refused() -> None:
    refused()
    client = signed_in(Role.VIEWER)
    assert "act" not in Shown(client.get(PATH)).fields
    assert client.post(PATH, {"reason": REASON, "key": "k", "act": "drop"}).status_code == 403
    assert Quarantine.objects.count() == 1


def test_names_that_found_no_place_are_told(settings: Any) -> None:
    settings.MOST_NAMES = {**settings.MOST_NAMES, "operation": 10}
    KnownName.objects.bulk_create(
        KnownName(environment="dev", kind="operation", name=f"op-{number}", seen_day=1) for number in range(10)
    )
    Tally.objects.create(environment="dev", name="operation", count=1234, last_us=NOW_US)
    page = signed_in().get(PATH)
    operations = standing_of(page, Kind.OPERATION)
    assert (operations.known, operations.most, operations.is_full, operations.folded) == (10, 10, True, 1234)
    assert [one.standing.kind for one in page.context["names"] if one.standing.is_full] == [Kind.OPERATION]
    assert "operations" in page.context["sentence"]
    assert "1,234" in text_of(page)


def numbers(text: str) -> list[int]:
    """The numbers in what a command says."""
    return [int(one) for one in re.findall(r"\d+", text)]


def command(*words: str) -> str:
    out = StringIO()
    call_command("quarantine", *words, stdout=out, stderr=out)
    return out.getvalue()


def test_the_command_lists_replays_and_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = command("list")
    assert (numbers(nothing), "dev" in nothing) == ([], True)
    refused(2)
    reason = Quarantine.objects.order_by("id")[0].reason
    assert (command("list").count(reason), "1101" in reason) == (2, True)
    assert numbers(command("replay", "--reason", REASON)) == [0, 0, 2]
    assert [one.tries for one in Quarantine.objects.all()] == [1, 1]
    tried = [line.partition(reason)[2] for line in command("list").splitlines()]
    assert [numbers(one) for one in tried] == [[1], [1]]
    mended(monkeypatch)
    line = str(Quarantine.objects.order_by("id")[0].pk)
    assert numbers(command("replay", line, "--reason", REASON)) == [1, 1, 0]
    assert numbers(command("drop", "--reason", REASON)) == [1]
    with pytest.raises(CommandError, match=r"\b10\b"):
        command("drop", "--reason", "no")
    assert AuditEntry.objects.filter(channel="cli").count() == 3
