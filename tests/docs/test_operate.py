"""The pages for operators: commands, addresses, variables, metrics and policies that they name exist."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest
from django.urls import Resolver404, resolve
from django.utils import timezone

from recovery_ops.cli import _parser
from recovery_ops.control.core.models.heartbeats import Beat
from recovery_ops.control.self_monitoring import readings
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime.process.identity import VARIABLES
from recovery_ops.server.variables import PREFIX, SECTIONS
from tests.docs.test_readme import OPERATE, read
from tests.support.guide import FENCE, snippets

LONGEST = 200
"""Lines of a page, so that one question has one page."""
TEXT = {page: read(page) for page in OPERATE}
ALL = "\n".join(TEXT.values())
NAMED = "RECOVERY_OPS_OIDC_… RECOVERY_OPS_MOST_…"
"""Families of variables that a page names by their beginning."""


def operator_lines() -> Iterator[tuple[str, str]]:
    """Every command of `recovery-ops` that a page shows, with the page."""
    for page, text in TEXT.items():
        for _, content in FENCE.findall(text):
            yield from ((page, line) for line in content.splitlines() if line.startswith("recovery-ops "))


def addresses() -> set[str]:
    """Every address of API and console that a page names in code, without query."""
    return set(re.findall(r"`(?:GET |POST |PUT )?(/(?:api/v1|docs/api|metrics|wallboard|v1/opamp)[\w./-]*)", ALL))


def is_address(address: str) -> bool:
    """Whether a page or an operation has this URL. The route without a name answers 404 for the rest of the API."""
    try:
        return resolve(address).url_name is not None
    except Resolver404:
        return False


def metrics() -> set[str]:
    return set(re.findall(r"`(recovery_ops_[a-z_]+)`", ALL))


def test_index_lists_every_page() -> None:
    listed = set(re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\)", TEXT["docs/operate/README.md"], re.MULTILINE))
    assert {f"docs/operate/{page}" for page in listed} == set(OPERATE) - {"docs/operate/README.md"}


@pytest.mark.parametrize("page", OPERATE)
def test_page_has_at_most_200_lines(page: str) -> None:
    assert len(TEXT[page].splitlines()) <= LONGEST


@pytest.mark.parametrize(("page", "line"), sorted(set(operator_lines())))
def test_operator_command_is_understood(page: str, line: str) -> None:
    _, *words = shlex.split(line)
    _parser({}).parse_args(words)


def test_unknown_operator_option_is_noticed() -> None:
    with pytest.raises(SystemExit):
        _parser({}).parse_args(["trip", "search_web", "--because", "it fails"])


@pytest.mark.parametrize("address", sorted(addresses()))
def test_address_of_the_console_exists(address: str) -> None:
    assert is_address(address)


@pytest.mark.parametrize("address", ["/api/v2/policies", "/api/v1/policy/schema"])
def test_unknown_address_is_noticed(address: str) -> None:
    assert not is_address(address)


def test_named_variables_are_declared() -> None:
    declared = {PREFIX + name for section in SECTIONS.values() for name in section}
    agents = {PREFIX + name for name in VARIABLES}
    named = set(re.findall(r"RECOVERY_OPS_[A-Z_]+[A-Z]\b", ALL.replace("_…", "")))
    assert named - {name.removesuffix("_…") for name in NAMED.split()} <= declared | agents


@pytest.mark.django_db
def test_documented_metrics_are_those_of_the_console() -> None:
    now = timezone.now()
    Beat.objects.create(name=Beat.SCHEDULER, at=now)  # its age is a metric once it has run
    found = {one.name for one in readings.readings(now)}
    assert found == {f"recovery_ops_{name}" for name in readings.METRICS}
    assert metrics()
    assert metrics() <= found


@pytest.mark.parametrize("example", snippets(ALL, "json"))
def test_example_of_a_policy_is_valid(example: str) -> None:
    parse_policy(json.loads(example))
