"""The operators' command with an administrator's key."""

from __future__ import annotations

import pytest

from events.models import AgentKey
from tests.support.command_line import Operator


@pytest.fixture
def admin(operator: Operator) -> Operator:
    """The operator's key may let others in, too."""
    for key in AgentKey.objects.all():
        key.scopes += " admin"
        key.save()
    return operator
