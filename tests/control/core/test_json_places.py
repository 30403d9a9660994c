"""A fault's path leads to its place in the JSON that was typed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from recovery_ops.control.core import json_positions as json_places
from recovery_ops.control.core.json_positions import Places

TEXT = """{
  "defaults": {"tool": {"max_retries": 99}},
  "rules": [
    {"id": "a", "scope": {}},
    {"id": "b", "settings": { "jitter" : [1, "}"] }}
  ],
  "importance": {"a.b": "critical"}
}"""


@pytest.mark.parametrize(
    ("path", "there", "line"),
    [
        ("defaults.tool.max_retries", '"max_retries": 99', 2),
        ("rules[1].settings.jitter", '"jitter" : [1, "}"]', 5),
        ("rules[1].settings.jitter[1]", '"}"', 5),
        ("rules[0]", '{"id": "a", "scope": {}}', 4),
        ("importance.a.b", '"a.b": "critical"', 7),
        ("rules[1].settings.unknown", '"settings": { "jitter" : [1, "}"] }', 5),
        ("nowhere", TEXT, 1),
    ],
)
def test_a_path_leads_to_its_member_or_what_is_nearest_above(path: str, there: str, line: int) -> None:
    found = Places(TEXT).of(path)
    assert (TEXT[found.start : found.end], found.line) == (there, line)


@pytest.mark.parametrize("text", ["", "{", '{"a": }', "[1,", '{"a" 1}', "\n\n  nonsense", "{" * 5000])
def test_what_is_no_json_has_its_fault_somewhere_in_it(text: str) -> None:
    found = Places(text).of("rules")
    assert 0 <= found.start <= found.end <= len(text)


def test_where_a_word_is_missing() -> None:
    assert Places('{\n  "a": \n}').of("") == (10, 11, 3)


def test_a_large_document_is_read_at_once() -> None:
    many = json.dumps({"rules": [{"id": f"r{n}", "settings": {"jitter": 0.5}} for n in range(2000)]}, indent=2)
    assert many[slice(*Places(many).of("rules[1999].id")[:2])] == '"id": "r1999"'


def test_a_text_is_read_once_however_many_faults_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = json_places._places

    def noted(text: str, start: int, path: str) -> Iterator[tuple[str, tuple[int, int]]]:
        read.append(path)
        return real(text, start, path)

    monkeypatch.setattr(json_places, "_places", noted)
    places = Places(TEXT)
    once = len(read)
    assert {places.of(path).line for path in ("rules[0]", "rules[1].settings.jitter", "nowhere")} == {4, 5, 1}
    assert len(read) == once > 1
