"""Each public name is documented: what it is, where its rule is written, and an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from recovery_ops import runtime
from recovery_ops.runtime.testing import Lab
from tests.support.guide import anchors
from tests.support.processes import ROOT

RULES = re.compile(r"Rules:\s+(docs/\S+\.md)(?:#(\S+))?")
"""Where the rule of a name is written."""


def documented() -> Iterator[tuple[str, object]]:
    """The public names, and the methods and properties of the public classes."""
    for name in runtime.__all__:
        found = getattr(runtime, name)
        yield name, found
        if inspect.isclass(found):
            bases = [one for one in found.__mro__ if one.__module__.startswith("recovery_ops")]
            for method in sorted({method for one in bases for method in vars(one) if not method.startswith("_")}):
                value = inspect.getattr_static(found, method)
                if inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod)):
                    yield f"{name}.{method}", value


DOCUMENTED = dict(documented())


def example_of(name: str) -> doctest.DocTest:
    lab = Lab()
    names: dict[str, Any] = {one: getattr(runtime, one) for one in runtime.__all__}
    doc = inspect.getdoc(DOCUMENTED[name]) or ""
    return doctest.DocTestParser().get_doctest(doc, names | {"lab": lab, "recovery": lab.recovery}, name, None, None)


@pytest.mark.parametrize("name", runtime.__all__)
def test_public_name_has_an_example_and_its_rule(name: str) -> None:
    assert example_of(name).examples
    assert RULES.search(inspect.getdoc(DOCUMENTED[name]) or "")


def test_links_to_rules_lead_somewhere() -> None:
    links = {link for value in DOCUMENTED.values() for link in RULES.findall(inspect.getdoc(value) or "")}
    assert [link for link in links if link[1] and link[1] not in anchors((ROOT / link[0]).read_text())] == []


@pytest.mark.parametrize("name", sorted(name for name in DOCUMENTED if example_of(name).examples))
def test_example_runs(name: str) -> None:
    told: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example_of(name), out=told.append)
    assert result.failed == 0, "".join(told)


def test_public_methods_are_documented() -> None:
    missing = [name for name, value in DOCUMENTED.items() if not inspect.getdoc(value)]
    assert missing == []
