"""No request to one environment changes a row of another, which holds objects of the same names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.test import Client

from events.issues.fold import KindName, digest_of
from events.issues.models import FailureKind
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.models.audit import AuditEntry, AuditHead
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.rules.roles import Role
from tests.control.every_route import Try, everything
from tests.support.foreign_objects import world
from tests.support.isolated import rolled_back
from tests.support.pages import REASON, signed_in
from tests.support.retries import there

__all__ = ["everything", "world"]  # the fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

OTHER = "test"
Rows = dict[type[models.Model], list[tuple[Any, ...]]]


def tables() -> list[type[models.Model]]:
    """Every table whose rows are of one environment, without the audit log."""
    found = [
        model
        for model in apps.get_models()
        if model not in (AuditEntry, AuditHead) and any(one.name == "environment" for one in model._meta.fields)
    ]
    assert len(found) > 30
    return found


def digests_there() -> dict[bytes, bytes]:
    """What a kind of failures of `dev` is called in the other environment, whose name its digest covers."""
    kinds = FailureKind.objects.filter(environment="dev").values_list("digest", *KindName._fields)
    return {bytes(digest): digest_of(KindName(*names)._replace(environment=OTHER)) for digest, *names in kinds}


def copied() -> int:
    """Every row of `dev` stands in the other environment too; how many could be copied."""
    copies: dict[tuple[type[models.Model], Any], models.Model] = {}
    there_too = digests_there()
    for model in tables():
        for one in model._base_manager.filter(environment="dev"):
            old = one.pk
            one.environment = OTHER  # type: ignore[attr-defined]
            one.pk = f"t{old[1:]}" if isinstance(old, str) else None
            for name in ("digest", "kind"):
                if isinstance(digest := getattr(one, name, None), bytes | memoryview):
                    setattr(one, name, there_too.get(bytes(digest), digest))
            one._state.adding = True
            try:
                with transaction.atomic():
                    model._base_manager.bulk_create([one])
            except IntegrityError:  # a name that no two environments have
                continue
            copies[model, old] = one
    for (model, _), one in copies.items():
        links = (link for link in model._meta.concrete_fields if isinstance(link, models.ForeignKey))
        pairs = {link.name: copies.get((link.related_model, getattr(one, link.attname))) for link in links}
        if new := {name: to for name, to in pairs.items() if to is not None}:
            models.QuerySet(model).filter(pk=one.pk).update(**new)
    return len(copies)


def rows(environment: str, chosen: Iterable[type[models.Model]]) -> Rows:
    """What stands in an environment."""
    found = {model: model._base_manager.filter(environment=environment).order_by("pk") for model in chosen}
    return {model: list(kept.values_list()) for model, kept in found.items()}


class Written:
    """The names of the tables that a request writes to."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.names |= set(re.findall(r'^(?:INSERT INTO|UPDATE|DELETE FROM) "(\w+)"', sql))
        return execute(sql, params, many, context)


ROW = r'"(?!user_id")(?:(?:\w+_)?id)" (?:= %s|IN \()|\b(?:kind|digest)"? (?:= %s|IN \()'
"""A condition that names rows, or the row to which they belong. The digest of a failure's kind has its environment."""
OF_ALL = {
    "control_rolegrant": "a person's roles in every environment",
    "control_revision": "every environment by its name",
    "control_environmentrules": "every environment by its name, for which of them is production",
    "events_agentkey": "every environment by its name",
}
ACROSS = (
    'SELECT "events_fact"."id" AS "pk" FROM "events_fact" ORDER BY',  # facts are numbered across environments
    'SELECT "events_fact"."environment" AS "environment", "events_fact"."received_us"',  # the health of the server
)


class Unscoped:
    """The statements of a request that read or change rows of environments, and name neither one nor a row."""

    def __init__(self) -> None:
        self.tables = {model._meta.db_table for model in tables()} - OF_ALL.keys()
        self.found: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        where = sql.partition("WHERE")[2]
        is_of_some = self.tables & set(re.findall(r'(?:FROM|JOIN|UPDATE) "?(\w+)"?', sql))
        if is_of_some and not ("environment" in where or re.search(ROW, where) or sql.startswith(ACROSS)):
            self.found.append(sql)
        return execute(sql, params, many, context)


WISHES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("post", "runs/run-1/abort", {}),
    ("post", "fleet/pause", {"targets": [{"service": "research", "instance": "r-1"}]}),
    ("post", "fleet/stop", {"targets": [{"service": "research", "instance": "r-0"}]}),
    ("put", "runbooks/timeout", {"markdown": "- wait"}),
    ("post", "failures", {"verb": "archive", "more": 5, "fingerprints": ["one"]}),
)
"""What is done in both before: each can be taken back."""


def wish(client: Client) -> None:
    """Do it in `dev`."""
    for method, path, body in WISHES:
        answer = getattr(client, method)(
            f"/api/v1/{path}?environment=dev", {"reason": REASON} | body, "application/json"
        )
        assert answer.status_code < 300, path


def test_request_leaves_the_other_environment_alone(everything: list[Try], subtests: pytest.Subtests) -> None:
    """In the environment that was there first as in the one whose rows are newer."""
    there("r-0", "r-1", at=0.5)
    client, done = signed_in(Role.ADMIN, "zed", EVERYWHERE), 0
    wish(client)
    assert copied() > 100
    before = {environment: rows(environment, tables()) for environment in ("dev", OTHER)}
    for here, other in (("dev", OTHER), (OTHER, "dev")):
        for one in everything:
            if not one.is_api or one.method == "get":
                continue
            written = Written()
            with subtests.test(asked=one.told, here=here), rolled_back(), connection.execute_wrapper(written):
                place = f"{one.path}?environment={here}"
                answer = getattr(client, one.method)(place, dict(one.body), "application/json")
                done += answer.status_code < 300
                old = before[other]
                after = rows(other, (model for model in old if model._meta.db_table in written.names))
                assert [model.__name__ for model in after if after[model] != old[model]] == []
    assert done > 120


def test_identifier_of_another_environment_is_unknown(everything: list[Try], subtests: pytest.Subtests) -> None:
    client = signed_in(Role.ADMIN, "zed", EVERYWHERE)
    held, shed = Override.objects.get(environment="dev"), LoadShed.objects.get(environment="dev")
    for path, body in (
        ("breakers/search_web/release", {"override_id": held.pk}),
        ("breakers/search_web/extend", {"override_id": held.pk, "expires_in_s": 9000.0}),
        ("shed/release", {"shed_id": shed.pk}),
    ):
        for here, status in ((OTHER, 404), ("dev", 200)):
            with subtests.test(path=path, here=here), rolled_back():
                said = {"reason": REASON} | body
                answer = client.post(f"/api/v1/{path}?environment={here}", said, "application/json")
                assert answer.status_code == status


@pytest.mark.full
def test_every_statement_names_environment_or_row(everything: list[Try], subtests: pytest.Subtests) -> None:
    there("r-0", "r-1", at=0.5)
    client, asked = signed_in(Role.ADMIN, "zed", EVERYWHERE), 0
    answers: list[tuple[str, dict[str, Any], bytes]] = []
    for one in everything:
        if not one.is_api and one.method != "get":
            continue  # the forms call the same services
        unscoped = Unscoped()
        with subtests.test(asked=one.told), rolled_back(), connection.execute_wrapper(unscoped):
            if one.is_api:
                answer = getattr(client, one.method)(f"{one.path}?environment=dev", dict(one.body), "application/json")
                if one.method == "get" and not answer.streaming:
                    answers.append((one.path, dict(one.body), answer.content))
            else:
                client.get(one.path)
            assert unscoped.found == []
        asked += 1
    assert asked > 300
    assert copied() > 100
    for path, body, before in answers:
        with subtests.test(read=path):
            is_of_accounts = path.startswith("/api/v1/accounts")  # these tell the roles elsewhere
            assert is_of_accounts or client.get(f"{path}?environment=dev", body).content == before
    assert len(answers) > 50
