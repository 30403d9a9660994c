"""Proposals of policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.services import proposals
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person

EVA, TOM = person(Role.EDITOR, "eva"), person(Role.APPROVER, "tom")


def policy(**settings: Any) -> dict[str, Any]:
    """The built-in policy with a rule for search_web."""
    rule = {"id": "search_web", "scope": {"operation": "search_web"}, "settings": settings or {"max_retries": 5}}
    return {**document_of(BUILT_IN), "rules": [rule]}


def propose(document: Any = None, **changed: Any) -> PolicyProposal:
    given = {"document": policy() if document is None else document, "title": "more patience", "by": EVA}
    return proposals.propose(**asked(**given) | changed).object


def act(action: Callable[..., CommandResult[Any]], proposal: PolicyProposal, by: Actor = EVA, **more: Any) -> Any:
    return action(**asked(by=by, number=proposal.number) | more).object
