"""The chain shows every kind of tampering, whatever was done to the tables behind our back."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.core import actors
from recovery_ops.control.core.audit_log import hash_of, verify_chain
from recovery_ops.control.core.models.audit import AuditEntry, AuditHead
from recovery_ops.control.core.models.bases import Unchangeable
from tests.support.actions import SEARCH, asked, trip
from tests.support.told import untold
from tests.support.webhook_receiver import Reply, receiver

ENTRIES = 5
TEXTS = ("actor_name", "actor_id", "verb", "object", "operation", "reason", "before_text", "after_text", "result")
ORIGIN = ("actor_kind", "code", "channel", "ip", "user_agent", "request_id")


@pytest.fixture
def chain(known: None) -> None:
    """Five changes in `dev`, and one in `prod`."""
    for number in range(ENTRIES):
        trip(reason=f"for the reason number {number}", key=f"key {number}")
    overrides.trip(**asked(environment="prod", ahead=True, scope=SEARCH, by=actors.system_actor("tests")))


def sql(statement: str, *values: str | int | None) -> None:
    """What somebody with the database's password might run."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def broken(environment: str = "dev") -> tuple[int | None, int]:
    """The first wrong row, and how many before it are as they were written."""
    report = verify_chain(environment)
    assert report.is_whole == (report.problem == "")
    return report.broken_number, report.verified


pytestmark = pytest.mark.usefixtures("chain")


def test_what_was_only_written_is_whole() -> None:
    assert broken() == (None, ENTRIES)
    assert broken("prod") == (None, 1)
    assert broken("never heard of") == (None, 0)
    assert untold(verify_chain("dev").words, 5) == []


@pytest.mark.parametrize("column", [*TEXTS, *ORIGIN, "hash", "key"])
def test_a_changed_text_shows(column: str) -> None:
    sql(f'UPDATE control_auditentry SET "{column}" = %s WHERE environment = %s AND number = 3', "x", "dev")
    assert broken() == (3, 2)
    assert broken("prod") == (None, 1)
    assert untold(verify_chain("dev").words, 3) == []


@pytest.mark.parametrize(("column", "value"), [("at", "2020-01-01 00:00:00"), ("revision", 1), ("key", None)])
def test_a_changed_moment_number_or_key_shows(column: str, value: str | int | None) -> None:
    sql(f'UPDATE control_auditentry SET "{column}" = %s WHERE environment = %s AND number = 3', value, "dev")
    assert broken() == (3, 2)


def renumber(old: int, new: int) -> None:
    sql("UPDATE control_auditentry SET number = %s WHERE environment = %s AND number = %s", new, "dev", old)


def delete(*numbers: int) -> None:
    for number in numbers:
        sql("DELETE FROM control_auditentry WHERE environment = %s AND number = %s", "dev", number)


def swap() -> None:
    renumber(2, 99)
    renumber(3, 2)
    renumber(99, 3)


def close_the_gap() -> None:
    delete(3)
    renumber(4, 3)
    renumber(5, 4)


def move_to_another_environment() -> None:
    moved = "SET environment = %s, number = 2 WHERE environment = %s AND number = 5"
    sql(f"UPDATE control_auditentry {moved}", "prod", "dev")


def forget_the_head() -> None:
    sql("DELETE FROM control_audithead WHERE environment = %s", "dev")


def forget_everything() -> None:
    delete(1, 2, 3, 4, 5)
    forget_the_head()


def turn_the_head_back() -> None:
    delete(5)
    head = AuditEntry.objects.get(environment="dev", number=4).hash
    sql("UPDATE control_audithead SET number = 4, hash = %s WHERE environment = %s", head[::-1], "dev")


@pytest.mark.parametrize(
    ("tamper", "first"),
    [
        (lambda: delete(1), 1),
        (lambda: delete(3), 3),
        (swap, 2),
        (close_the_gap, 3),
        (lambda: delete(5), 5),
        (lambda: delete(4, 5), 4),
        (lambda: delete(1, 2, 3, 4, 5), 1),
        (move_to_another_environment, 5),
        (forget_the_head, 1),
        (forget_everything, 1),
        (turn_the_head_back, 5),
    ],
)
def test_a_missing_moved_or_shortened_chain_shows(tamper: Callable[[], None], first: int) -> None:
    tamper()
    assert broken()[0] == first


def test_a_row_added_by_another_hand_shows() -> None:
    entry = AuditEntry.objects.get(environment="dev", number=5)
    AuditEntry.objects.bulk_create(
        [AuditEntry(**{**_values(entry), "number": 6, "key": None, "hash": "0" * 64})],
    )
    assert broken() == (6, 5)


def _values(entry: AuditEntry) -> dict[str, object]:
    return {field.attname: getattr(entry, field.attname) for field in entry._meta.concrete_fields if field.name != "id"}


def test_the_model_itself_neither_changes_nor_deletes() -> None:
    entry = AuditEntry.objects.first()
    assert entry is not None
    for attempt in (
        entry.save,
        entry.delete,
        AuditEntry.objects.all().delete,
        lambda: AuditEntry.objects.update(reason="another reason"),
    ):
        with pytest.raises(Unchangeable):
            attempt()


def test_the_command_names_the_first_broken_row_and_fails() -> None:
    said = io.StringIO()
    call_command("audit", "verify", stdout=said)
    dev, prod = sorted(said.getvalue().splitlines())
    assert (untold(dev, "dev", 5), untold(prod, "prod", 1)) == ([], [])
    delete(4, 5)
    said = io.StringIO()
    with pytest.raises(CommandError, match=r"\bdev\b"):
        call_command("audit", "verify", stdout=said)
    [broken] = [line for line in said.getvalue().splitlines() if line.startswith("dev\t")]
    assert untold(broken, 4, 5) == [], "from which to which rows are missing"
    call_command("audit", "verify", environment="prod", stdout=said)


def said_by(*arguments: str, **options: object) -> str:
    said = io.StringIO()
    call_command("audit", *arguments, stdout=said, **options)
    return said.getvalue()


def write_anew() -> None:
    """What only a kept anchor shows: other rows, other hashes, and a head that fits them."""
    previous = ""
    for entry in AuditEntry.objects.filter(environment="dev").order_by("number"):
        entry.reason = "because I say so"
        previous = hash_of(entry, previous)
        sql(
            "UPDATE control_auditentry SET reason = %s, hash = %s WHERE environment = %s AND number = %s",
            entry.reason,
            previous,
            "dev",
            entry.number,
        )
    sql("UPDATE control_audithead SET hash = %s WHERE environment = %s", previous, "dev")


def test_a_chain_written_anew_is_whole_and_denied_by_an_anchor(tmp_path: Path) -> None:
    kept = tmp_path / "heads.jsonl"
    kept.write_text(said_by("anchor"))
    assert [json.loads(line)["number"] for line in kept.read_text().splitlines()] == [ENTRIES, 1]
    trip(reason="one more after the anchor", key="later")
    assert untold(said_by("verify", "--anchors", str(kept)), 2) == []
    write_anew()
    assert verify_chain("dev").is_whole
    with pytest.raises(CommandError, match=r"\bdev\b"):
        said_by("verify", "--anchors", str(kept))


SECRET = "what signs our anchors, and nothing else"


def test_anchors_are_sent_to_a_file_and_an_address_signed(tmp_path: Path, settings: Any) -> None:
    kept = tmp_path / "heads.jsonl"
    with pytest.raises(CommandError, match="RECOVERY_OPS_AUDIT_ANCHOR_SECRET"):
        said_by("anchor", "--to", str(kept))
    settings.AUDIT_ANCHOR_SECRET = SECRET
    assert untold(said_by("anchor", "--to", str(kept)), 2) == []
    with receiver() as outside:
        with pytest.raises(CommandError):
            said_by("anchor", "--to", outside.url)  # in our own network, and nobody said that it may be
        settings.NOTIFY_HOSTS = [outside.host]
        said_by("anchor", "--to", outside.url)
        outside.usual = Reply(status=302, headers={"Location": "http://127.0.0.1:1/"})
        with pytest.raises(CommandError, match=r"\b302\b"):
            said_by("anchor", "--to", outside.url)
    kept.write_bytes(kept.read_bytes() + outside.got[0].body)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert untold(said_by("verify", "--anchors", str(kept)), 4) == []
    write_anew()
    with pytest.raises(CommandError, match=r"\bdev\b"):
        said_by("verify", "--anchors", str(kept))


def test_an_anchor_that_somebody_else_wrote_is_known(tmp_path: Path, settings: Any) -> None:
    kept = tmp_path / "heads.jsonl"
    settings.AUDIT_ANCHOR_SECRET = SECRET
    said_by("anchor", "--to", str(kept))
    write_anew()
    first, second = (json.loads(line) for line in kept.read_text().splitlines())
    forged = first | {"hash": AuditHead.objects.get(environment="dev").hash}
    kept.write_text(f"{json.dumps(second)}\n{json.dumps(forged)}\n")
    with pytest.raises(CommandError, match=r"\bline 2\b"):
        said_by("verify", "--anchors", str(kept))


def test_an_anchor_without_its_signature_counts_for_nothing(tmp_path: Path, settings: Any) -> None:
    kept = tmp_path / "heads.jsonl"
    settings.AUDIT_ANCHOR_SECRET = SECRET
    kept.write_text(said_by("anchor"))
    assert untold(said_by("verify", "--anchors", str(kept)), 2) == [], "what is printed is signed, too"
    write_anew()
    forged = json.loads(kept.read_text().splitlines()[0]) | {"hash": AuditHead.objects.get(environment="dev").hash}
    del forged["signature"]
    kept.write_text(json.dumps(forged))
    with pytest.raises(CommandError, match=r"\bline 1\b"):
        said_by("verify", "--anchors", str(kept))


@pytest.mark.parametrize("rest", ["", "\n\n"])
def test_a_file_without_anchors_proves_nothing(tmp_path: Path, rest: str) -> None:
    kept = tmp_path / "heads.jsonl"
    kept.write_text(rest)
    with pytest.raises(CommandError, match=r"heads\.jsonl"):
        said_by("verify", "--anchors", str(kept))


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, settings: Any) -> None:
    settings.AUDIT_ANCHOR_SECRET = SECRET
    with pytest.raises(CommandError, match=r"heads\.jsonl"):
        said_by("anchor", "--to", str(tmp_path / "missing" / "heads.jsonl"))


@pytest.mark.parametrize("line", ["no JSON", "{}", "[1]", '{"environment": "dev", "number": "x", "hash": ""}'])
def test_a_line_that_is_no_anchor_is_named(tmp_path: Path, line: str) -> None:
    kept = tmp_path / "heads.jsonl"
    kept.write_text(f"\n{line}\n")
    with pytest.raises(CommandError, match=r"\bline 2\b"):
        said_by("verify", "--anchors", str(kept))
    with pytest.raises(CommandError, match="missing"):
        said_by("verify", "--anchors", str(tmp_path / "missing"))


def test_the_log_is_written_out_in_full_and_in_order() -> None:
    rows = [json.loads(line) for line in said_by("export", environment="dev").splitlines()]
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5]
    assert rows[2]["reason"] == "for the reason number 2"
    assert rows[4]["hash"] == AuditEntry.objects.get(environment="dev", number=5).hash
    assert len(said_by("export").splitlines()) == ENTRIES + 1
