"""Every object of one environment, for somebody who rules another group of agents: it is seen and stays.

A role for one group reads the whole environment and changes that group alone (`docs/reference/roles.md`).
The objects and their addresses are those of `test_foreign_objects.py`; all agents are of `search`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from events.models import Agent
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.breakers.services import resets as resets_services
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.permissions import OF_A_PART
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, asked
from tests.support.addresses import Address
from tests.support.foreign_objects import addresses, admin_of, answered, holding, world
from tests.support.stories import Story, counted, heartbeat, moved

__all__ = ["world"]  # the fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

OURS = Scope(operation="search_web", group="search")


def is_deed_to_breaker(address: Address) -> bool:
    """Whether it may be held for one group; then what it is done to stands in the form or the body."""
    return address.path.rpartition("/")[2] in OF_A_PART


def test_who_rules_a_group_sees_of_others_what_a_viewer_sees(world: dict[str, str]) -> None:
    theirs, viewer = admin_of("dev", "payments"), holding(Role.VIEWER, "dev")
    found = {}
    for address in addresses(world):
        if "get" in address.methods() and not is_deed_to_breaker(address):
            found[address.path] = tuple(answered(one, address, "get", "dev") for one in (theirs, viewer))
    assert {path: seen for path, seen in found.items() if seen[0] != seen[1]} == {}
    assert {200, 403} <= {status for seen in found.values() for status in seen}


def test_who_rules_a_group_elsewhere_finds_nothing(world: dict[str, str]) -> None:
    """Where the role would not do anyway the answer is 403, whether the object is there or not."""
    theirs, viewer = admin_of("test", "search"), holding(Role.VIEWER, "dev")
    seen = []
    for address in addresses(world):
        for method in address.methods():
            status = answered(theirs, address, method, "test")
            is_for_viewers = answered(viewer, address, method, "dev") == 200
            if status not in ((404,) if is_for_viewers else (403, 404, 405)):
                seen.append((method, address.path, status))
            if answered(theirs, address, method, "dev") not in (403, 404, 405):
                seen.append((method, address.path, 0))
    assert seen == []


def test_who_rules_a_group_does_nothing_to_objects_of_others(world: dict[str, str]) -> None:
    Agent.objects.update(group="search")
    owner, theirs, viewer = admin_of("dev"), admin_of("dev", "payments"), holding(Role.VIEWER, "dev")
    refused, let_in = 0, []
    for address in addresses(world):
        for method in address.methods():
            if method == "get" or is_deed_to_breaker(address) or answered(owner, address, method, "dev") == 405:
                continue
            status = answered(theirs, address, method, "dev")
            refused += status == 403
            # A page that takes no posts shows itself to a viewer, too, who changes nothing.
            if status != 403 and status != answered(viewer, address, method, "dev"):
                let_in.append((method, address.path, status))
    assert let_in == []
    assert refused > 40


def fleet() -> None:
    """Two instances of the group search with an open breaker search_web."""
    story = Story()
    for instance in ("r-0", "r-1"):
        story.tell(heartbeat(), moved(State.OPEN), counted(6), at=90, instance=instance)
    story.store()
    Agent.objects.update(group="search")


def deeds(override: str, group: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every deed to search_web that may be held for a group, by page, by the API, and by the API for many at once."""
    for verb in sorted(OF_A_PART):
        named = {"override": override} if verb in ("release", "extend") else {"scope": "group", "group": group}
        yield f"/breakers/search_web/{verb}", {"reason": REASON, "expires_in_s": "14400"} | named
        length = {"expires_in_s": 14_400.0} if verb in ("trip", "disable", "observe", "extend") else {}
        part = {"reason": REASON, "group": group}
        yield f"/api/v1/breakers/search_web/{verb}", part | length
        yield "/api/v1/breakers", part | length | {"verb": verb, "names": ["search_web"]}
        if verb in ("release", "extend"):
            yield f"/api/v1/breakers/search_web/{verb}", {"reason": REASON, "override_id": override} | length


def done(client: Client, path: str, body: dict[str, Any]) -> int:
    """The status of one deed, of which nothing stays; of a list of one, that of the one."""
    with transaction.atomic():
        if path.startswith("/api/"):
            answer = client.post(f"{path}?environment=dev", body, "application/json")
            results = answer.json().get("results", ())
            problems = [one["problem"]["status"] for one in results if "problem" in one]
            status = problems[0] if problems else answer.status_code
        else:
            status = client.post(f"{path}?environment=dev", body).status_code
        wrote = AuditEntry.objects.filter(result=AuditEntry.OK, actor_name__contains=" of ").exists()
        transaction.set_rollback(True)
    assert wrote == (status < 400), (path, body, status)
    return int(status)


@pytest.mark.parametrize("named", ["search", "*", "s*"])
def test_a_deed_to_another_group_is_refused(named: str) -> None:
    fleet()
    override = overrides.disable(**asked(scope=OURS)).object.pk
    theirs = admin_of("dev", "payments")
    found = {(path, str(body)): done(theirs, path, body) for path, body in deeds(override, named)}
    assert len(found) == 23
    # Where nothing rests on exactly the scope that is named, there is nothing to end.
    assert {told: status for told, status in found.items() if status not in (403, 404)} == {}
    assert list(found.values()).count(403) >= 17


def test_the_same_deed_to_ones_own_group_is_done() -> None:
    fleet()
    override = overrides.disable(**asked(scope=OURS)).object.pk
    ours = admin_of("dev", "search")
    found = {(path, str(body)): done(ours, path, body) for path, body in deeds(override, "search")}
    assert {told: status for told, status in found.items() if status >= 400} == {}


@pytest.mark.parametrize(("group", "is_let"), [("search", True), ("payments", False)])
def test_a_reset_in_steps_is_cancelled_by_who_rules_its_group(group: str, is_let: bool) -> None:
    fleet()
    resets_services.reset(**asked(scope=OURS))
    number, somebody = ResetRamp.objects.get().number, admin_of("dev", group)
    page = f"/resets/{number}"
    assert ('value="cancel"' in somebody.get(page).content.decode()) == is_let
    assert (done(somebody, page, {"reason": REASON, "act": "cancel"}) < 400) == is_let
    assert (done(somebody, f"/api/v1/resets/{number}/cancel", {"reason": REASON}) < 400) == is_let
