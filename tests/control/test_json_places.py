"""A fault's path leads to its place in the JSON that was typed."""

from __future__ import annotations

import json

import pytest

from recovery_ops.control.json_places import place_of

TEXT = """{
  "defaults": {"tool": {"max_retries": 99}},
  "rules": [
    {"id": "a", "scope": {}},
    {"id": "b", "knobs": { "jitter" : [1, "}"] }}
  ],
  "importance": {"a.b": "critical"}
}"""


@pytest.mark.parametrize(
    ("path", "there", "line"),
    [
        ("defaults.tool.max_retries", '"max_retries": 99', 2),
        ("rules[1].knobs.jitter", '"jitter" : [1, "}"]', 5),
        ("rules[1].knobs.jitter[1]", '"}"', 5),
        ("rules[0]", '{"id": "a", "scope": {}}', 4),
        ("importance.a.b", '"a.b": "critical"', 7),
        ("rules[1].knobs.unknown", '"knobs": { "jitter" : [1, "}"] }', 5),
        ("nowhere", TEXT, 1),
    ],
)
def test_a_path_leads_to_its_member_or_what_is_nearest_above(path: str, there: str, line: int) -> None:
    found = place_of(TEXT, path)
    assert (TEXT[found.start : found.end], found.line) == (there, line)


@pytest.mark.parametrize("text", ["", "{", '{"a": }', "[1,", '{"a" 1}', "\n\n  nonsense", "{" * 5000])
def test_what_is_no_json_has_its_fault_somewhere_in_it(text: str) -> None:
    found = place_of(text, "rules")
    assert 0 <= found.start <= found.end <= len(text)


def test_where_a_word_is_missing() -> None:
    assert place_of('{\n  "a": \n}', "") == (10, 11, 3)


def test_a_large_document_is_read_at_once() -> None:
    many = json.dumps({"rules": [{"id": f"r{n}", "knobs": {"jitter": 0.5}} for n in range(2000)]}, indent=2)
    assert many[slice(*place_of(many, "rules[1999].id")[:2])] == '"id": "r1999"'
