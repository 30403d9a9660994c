"""What a key does is the deed of whoever made it: nobody is a second person to themselves by way of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recovery_ops.control.access.services.keys import make_key, rotate_key
from recovery_ops.control.approvals.services import agree
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.permissions import may_of_key
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.services import proposals
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person

pytestmark = pytest.mark.usefixtures("known")

ADA, UMA = person(Role.ADMIN, "ada"), person(Role.APPROVER, "uma")
YES = "I have seen the provider's page, too"


def program(prefix: str, scopes: Sequence[str]) -> Actor:
    def may(permission: str, environment: str) -> bool:
        return may_of_key(scopes, "dev", permission, environment)

    return Actor(name=prefix, kind="key", channel="api", may=may, key_prefix=prefix)


def key_of(maker: Actor, *scopes: str) -> Actor:
    made = make_key(**asked(by=maker, name="a program", scopes=list(scopes), days=30)).object.key
    return program(made.prefix, scopes)


def own_key(maker: Actor) -> Actor:
    return key_of(maker, "act")


def key_of_own_key(maker: Actor) -> Actor:
    return key_of(key_of(maker, "admin"), "act")


def replaced_key(maker: Actor) -> Actor:
    old = key_of(UNA, "act")
    new = rotate_key(**asked(by=key_of(maker, "admin"), prefix=old.key_prefix)).object.key
    return program(new.prefix, ["act"])


UNA = person(Role.ADMIN, "una")
WAYS: list[Callable[[Actor], Actor]] = [own_key, key_of_own_key, replaced_key]


def code_of(action: Callable[..., CommandResult[Any]], **more: Any) -> str:
    with pytest.raises(CommandRejected) as refused:
        action(**asked(**more))
    return refused.value.code


@pytest.mark.parametrize("way", WAYS)
def test_nobody_approves_what_a_key_of_theirs_proposed(way: Callable[[Actor], Actor]) -> None:
    key = way(ADA)
    made = proposals.propose(**asked(by=key, document=document_of(BUILT_IN), title="mine")).object
    proposals.submit(**asked(by=key, number=made.number))
    assert code_of(proposals.approve, by=ADA, number=made.number) == "own_work"
    proposals.approve(**asked(by=UMA, number=made.number))
    assert PolicyProposal.objects.get(pk=made.pk).state == "approved"


def test_nobody_approves_what_a_key_of_theirs_edited() -> None:
    made = proposals.propose(**asked(by=UMA, document=document_of(BUILT_IN), title="hers")).object
    document = {
        **document_of(BUILT_IN),
        "rules": [{"id": "a", "scope": {"operation": "a"}, "settings": {"max_retries": 1}}],
    }
    proposals.revise(**asked(by=key_of_own_key(ADA), number=made.number, document=document))
    proposals.submit(**asked(by=UMA, number=made.number))
    assert code_of(proposals.approve, by=ADA, number=made.number) == "own_work"


@pytest.mark.parametrize("way", WAYS)
def test_nobody_agrees_to_what_a_key_of_theirs_asked_for(way: Callable[[Actor], Actor]) -> None:
    EnvironmentRules.objects.create(environment="dev", is_second_needed=True)
    with pytest.raises(ApprovalPending) as waits:
        overrides.trip(**asked(by=way(ADA), scope=Scope(operation="*")))
    number = waits.value.request.number
    assert code_of(agree, by=ADA, number=number, reason=YES) == "own_work"
    found = agree(**asked(by=person(name="tom"), number=number, reason=YES)).object
    assert found.state == ApprovalRequest.AGREED
