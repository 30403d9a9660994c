"""Masking rules on the operator's command line, against a running console."""

from __future__ import annotations

import json
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
    assert operator.said == ["Only what is masked anyway."]
    assert operator.run("masking", "test", "of CUST-0123456789", "--file", str(file)) == cli.DONE
    assert operator.said == ["of [customer]", "  customer: 1 times"]
    assert operator.run("masking", "set", str(file), *WHY, "--dry-run") == cli.DONE
    assert operator.said == ["Nothing was changed. It would be: policy 1: customer added, customer.email hidden whole"]
    assert not HiddenTexts.objects.exists()
    assert operator.run("masking", "set", str(file), *WHY) == cli.DONE
    assert HiddenTexts.objects.get().section["rules"] == [rule]
    assert operator.run("masking", "list") == cli.DONE
    assert operator.said == [r"customer: CUST-\d{10} becomes [customer]", "attribute customer.email: masked whole"]
    file.write_text(json.dumps({"rules": [{**rule, "pattern": "(a+)+"}]}), encoding="utf-8")
    assert operator.run("masking", "set", str(file), *WHY) == cli.REFUSED
    file.write_text("[]", encoding="utf-8")
    assert operator.run("masking", "set", str(file), *WHY) != cli.DONE
