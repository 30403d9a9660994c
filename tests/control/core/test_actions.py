"""What is true of every action alike: who may, what is refused, what is written, and what agents hear of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import OperationalError, connection

from recovery_ops import wire
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.permissions import LEAST_ROLE
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.desired_state.document import Who
from recovery_ops.control.desired_state.stream import Board
from recovery_ops.rules.roles import ROLES, Role
from tests.support.actions import DEEDS, REASON, Deed, asked, person, written
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")


@pytest.fixture(params=DEEDS)
def deed(request: pytest.FixtureRequest, known: None) -> Deed:
    """Each action in turn, in a world that is ready for it."""
    found = DEEDS[request.param]
    found.prepare()
    return found


@pytest.mark.parametrize("role", ROLES)
def test_who_may_is_what_the_table_says(deed: Deed, role: Role) -> None:
    may = ROLES.index(role) >= ROLES.index(LEAST_ROLE[deed.permission])
    before = current_revision("dev")
    if may:
        assert deed.run(**asked(by=person(role))).revision == before + 1
    else:
        with pytest.raises(CommandRejected) as refused:
            deed.run(**asked(by=person(role)))
        assert (refused.value.status, refused.value.code) == (403, "forbidden")
        assert current_revision("dev") == before


def admin(**changed: Any) -> dict[str, Any]:
    return asked(by=person(Role.ADMIN)) | changed


def test_a_change_is_one_revision_and_one_row_in_a_whole_chain(deed: Deed) -> None:
    before = current_revision("dev")
    done = deed.run(**admin())
    assert done.revision == current_revision("dev") == before + 1
    entry = AuditEntry.objects.filter(environment="dev").latest("number")
    said = (entry.verb, entry.object, entry.operation, entry.reason, entry.revision, entry.actor_name, entry.result)
    assert said == (deed.verb, "search_web", "search_web", REASON, done.revision, "ana", "ok")
    assert verify_chain("dev").is_whole


def test_a_dry_run_checks_everything_and_writes_nothing(deed: Deed) -> None:
    before = written()
    done = deed.run(**admin(dry_run=True))
    assert done.is_dry_run
    assert done.impact is not None
    assert done.impact.instances == 3
    assert done.revision == current_revision("dev") + 1
    assert written() == before
    with pytest.raises(CommandRejected):
        deed.run(**asked(by=person(Role.VIEWER), dry_run=True))
    assert written() == before


@pytest.mark.parametrize("reason", ["x" * 501, "with a bell \a in it"])
def test_reason_that_cannot_be_kept_is_rejected(deed: Deed, reason: str) -> None:
    before = written()
    with pytest.raises(CommandRejected) as refused:
        deed.run(**admin(reason=reason))
    assert refused.value.status == 400
    assert refused.value.fields.keys() == {"reason"}
    assert written() == before


def test_asking_again_with_the_key_is_answered_and_not_done_again(deed: Deed) -> None:
    first = deed.run(**admin(key="one click"))
    before = written()
    second = deed.run(**admin(key="one click", seen=0))
    assert (second.was_already, second.object, second.revision) == (True, first.object, first.revision)
    assert written() == before


def test_a_key_stands_for_one_change_alone(deed: Deed) -> None:
    deed.run(**admin(key="one click"))
    other = DEEDS["policy.edit" if deed.verb != "policy.edit" else "breaker.trip"]
    before = current_revision("dev")
    with pytest.raises(CommandRejected) as refused:
        other.run(**admin(key="one click"))
    assert (refused.value.status, refused.value.code) == (409, "key_used")
    assert current_revision("dev") == before


def test_a_key_stands_for_one_reason(deed: Deed) -> None:
    deed.run(**admin(key="one click"))
    before = current_revision("dev")
    with pytest.raises(CommandRejected) as refused:
        deed.run(**admin(key="one click", reason="quite another reason than the first"))
    assert (refused.value.status, refused.value.code) == (409, "key_used")
    assert current_revision("dev") == before


def test_who_was_held_back_is_written_down(deed: Deed) -> None:
    with pytest.raises(CommandRejected):
        deed.run(**asked(by=person(Role.VIEWER, "vera")))
    entry = AuditEntry.objects.latest("number")
    assert (entry.actor_name, entry.verb, entry.result, entry.code) == ("vera", deed.verb, "refused", "forbidden")
    assert entry.revision is None
    assert verify_chain("dev").is_whole


def test_a_stranger_leaves_no_trace_in_an_environment(deed: Deed) -> None:
    before = written()
    with pytest.raises(CommandRejected):
        deed.run(**asked(by=person(Role.ADMIN, environment="elsewhere")))
    assert written() == before


def test_an_old_document_and_what_was_sent_make_the_new_one(deed: Deed) -> None:
    board = Board()
    board.read()
    who = Who(service="research", instance="r-1", group="")
    had, _ = board.message("dev", who)
    deed.run(**admin())
    board.read()
    revision, message = board.message("dev", who)
    assert revision == had + 1
    sent = json.loads(message.decode().split("data: ")[1])
    fresh = desired.document("dev", service="research", instance="r-1", group="", now=NOW)
    assert wire.parse_desired(sent) == wire.parse_desired(fresh | {"issued_at": sent["issued_at"]})


def away(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    """A database that goes away at the last moment of a change."""
    if sql.startswith(("UPDATE", "INSERT")) and '"control_revision"' in sql:
        raise OperationalError("the database went away")
    return execute(sql, params, many, context)


def test_a_change_that_fails_at_its_end_leaves_nothing(deed: Deed) -> None:
    before = written()
    with pytest.raises(OperationalError), connection.execute_wrapper(away):
        deed.run(**admin())
    assert written() == before
