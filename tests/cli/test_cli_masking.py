"""Masking rules on the operator's command line, against a running console."""

from __future__ import annotations

import json
import re
from pathlib import Path

from events.models import HiddenTexts
from recovery_ops import cli
from tests.support.command_line import WHY, Operator, operator

__all__ = ["operator"]  # the fixture


def test_rules_are_tried_set_and_listed(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    rule = {"name": "customer", "pattern": r"CUST-\d{10}", "replacement": "[customer]"}
    file.write_text(json.dumps({"rules": [rule], "attributes": ["customer.email"]}), encoding="utf-8")
    assert operator.run("masking", "list") == cli.DONE
    assert (len(operator.said), ":" in operator.said[0]) == (1, False), "no rule is listed"
    assert operator.run("masking", "test", "of CUST-0123456789", "--file", str(file)) == cli.DONE
    assert operator.said == ["of [customer]", "  customer: 1 times"]
    assert operator.run("masking", "set", str(file), *WHY, "--dry-run") == cli.DONE
    [line] = operator.said
    assert re.search(r"\bpolicy 1\b.*\bcustomer\b.*\bcustomer\.email\b", line)
    assert not HiddenTexts.objects.exists()
    assert operator.run("masking", "set", str(file), *WHY) == cli.DONE
    assert HiddenTexts.objects.get().section["rules"] == [rule]
    assert operator.run("masking", "list") == cli.DONE
    first, second = operator.said
    assert (first.partition(":")[0], r"CUST-\d{10}" in first, "[customer]" in first) == ("customer", True, True)
    assert "customer.email" in second
    file.write_text(json.dumps({"rules": [{**rule, "pattern": "(a+)+"}]}), encoding="utf-8")
    assert operator.run("masking", "set", str(file), *WHY) == cli.REFUSED
    file.write_text("[]", encoding="utf-8")
    assert operator.run("masking", "set", str(file), *WHY) != cli.DONE
