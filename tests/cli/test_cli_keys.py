"""Keys and the quarantine on the operator's command line, against a running console."""

from __future__ import annotations

import re

import pytest

from events.keys import find_key
from events.models import AgentKey, Fact, Quarantine
from recovery_ops import cli
from tests.support.command_line import WHY, Operator, operator
from tests.support.command_line_admin import admin
from tests.support.intake import mended, refused
from tests.support.told import moment, untold

__all__ = ["admin"]  # the fixture

__all__ = ["operator"]  # the fixture


def test_a_key_is_made_listed_replaced_and_revoked(admin: Operator) -> None:
    assert admin.run("keys", "create", "billing", "--scope", "ingest,desired", "--days", "30", *WHY) == cli.DONE
    token = admin.said[-1]
    key = AgentKey.objects.get(name="billing")
    assert key.expires_at is not None
    assert untold(admin.said[0], key.prefix, "billing", "ingest", "desired", moment(key.expires_at)) == []
    assert find_key(token) is not None
    assert admin.run("keys", "list") == cli.DONE
    assert token not in "".join(admin.said)
    assert any(one.startswith(f"{key.prefix} billing") for one in admin.said)
    assert admin.run("keys", "rotate", key.prefix, "--overlap", "30m", *WHY) == cli.DONE
    assert find_key(admin.said[-1]) is not None
    assert admin.run("keys", "revoke", key.prefix, *WHY) == cli.DONE
    assert [untold(one, key.prefix, "billing") for one in admin.said] == [[]]
    assert AgentKey.objects.get(prefix=key.prefix).revoked_at is not None


def test_a_key_that_is_tried_is_not_made(admin: Operator) -> None:
    assert admin.run("keys", "create", "billing", "--scope", "ingest", *WHY, "--dry-run") == cli.DONE
    assert [untold(one, "billing", "ingest", "ana") for one in admin.said] == [[]]
    assert not AgentKey.objects.filter(name="billing").exists()


def test_a_key_without_the_scope_is_told_so(operator: Operator) -> None:
    assert operator.run("keys", "create", "billing", "--scope", "ingest", *WHY) == cli.REFUSED
    assert not AgentKey.objects.filter(name="billing").exists()


def test_what_was_set_aside_is_listed_taken_in_again_and_dropped(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(3)
    assert operator.run("quarantine", "list") == cli.DONE
    assert len(operator.said) == 3
    assert untold(operator.said[0], 1024) == [], "why it could not be taken in"
    newest = operator.said[0].partition(" ")[0]
    mended(monkeypatch)
    assert operator.run("quarantine", "replay", newest, *WHY) == cli.DONE
    assert [re.findall(r"\d+", one) for one in operator.said] == [["1", "1", "0"]], "taken in, new facts, left"
    assert Quarantine.objects.count() == 2
    assert Fact.objects.filter(event="exhausted").count() <= 1
    assert operator.run("quarantine", "drop", *WHY, "--dry-run") == cli.DONE
    assert [untold(one, 2) for one in operator.said] == [[]]
    assert Quarantine.objects.count() == 2
    assert operator.run("quarantine", "drop", *WHY) == cli.DONE
    assert Quarantine.objects.count() == 0
