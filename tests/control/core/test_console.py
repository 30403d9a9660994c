"""How the console writes times, states and numbers, and that its script writes them alike."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from events.timelines import Table
from recovery_ops.control.templatetags import console
from recovery_ops.rules.enums import State
from tests.support.stories import NOW, ago

CONTEXT = {"now": NOW}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (14.9, "14 s"), (386, "6m 26s"), (3600, "1h 00m 00s"), (6904, "1h 55m 04s"), (273_600, "3d 04h 00m")],
)
def test_an_age_is_neither_rounded_up_nor_cut_short(seconds: float, words: str) -> None:
    assert f">{words} ago</time>" in console.age(CONTEXT, ago(seconds))
    assert f">{words}</time>" in console.left(CONTEXT, NOW + timedelta(seconds=seconds))


def test_a_moment_of_another_day_says_its_day_and_the_title_says_all() -> None:
    assert console.at(CONTEXT, ago(14)) == (
        '<time datetime="2026-11-21T14:26:04.000Z" title="2026-11-21 14:26:04 UTC">14:26:04</time>'
    )
    assert ">20 Nov 14:26:18</time>" in console.at(CONTEXT, ago(86_400))


def test_no_template_calls_a_moment_of_the_reader_s_clock_one_of_utc() -> None:
    local = re.compile(r"(?:{% at [^%]*%}|\|(?:date|time):[^}]*(?:H|G)[^}]*}})\s*UTC")
    templates = (Path(__file__).parents[3] / "templates").rglob("*.html")
    assert [one.name for one in templates if local.search(one.read_text())] == []


@pytest.mark.parametrize("tag", [console.at, console.age, console.left, console.so_far])
def test_what_never_happened_is_a_dash(tag: object) -> None:
    assert tag(CONTEXT, None) == "–"  # type: ignore[operator]  # each of them is a function


@pytest.mark.parametrize(("state", "word"), [(State.OPEN, "open"), (None, "unknown"), ("moon", "unknown")])
def test_a_state_is_a_mark_and_a_word(state: object, word: str) -> None:
    assert console.state(state, "3/40") == (
        f'<span class="state"><svg aria-hidden="true"><use href="#m-{word}"/></svg>{word} <small>3/40</small></span>'
    )


@pytest.mark.parametrize(("number", "words"), [(0, "0"), (0.4, "0.4"), (41.0, "41"), (1240, "1,240"), (None, "–")])
def test_a_number_keeps_what_matters(number: float | None, words: str) -> None:
    assert console.count(number) == words


@pytest.mark.parametrize(("share", "words"), [(0.0, "0 %"), (0.004, "0.4 %"), (0.91, "91 %"), (None, "–")])
def test_little_is_not_nothing(share: float | None, words: str) -> None:
    assert console.percent(share) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, "yes"), (False, "no"), (0.5, "0.5"), (32.0, "32"), (None, "–"), ("count_based", "count_based")],
)
def test_a_setting_reads_as_a_person_writes_it(value: object, words: str) -> None:
    assert console.setting(value) == words


@pytest.mark.parametrize(("name", "letters"), [("Ana Ruiz", "AR"), ("li.chen", "LC"), ("admin", "A"), ("", "?")])
def test_initials(name: str, letters: str) -> None:
    assert console.initials(name) == letters


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("payment.capture: reversal refused", "payment.<wbr>capture: reversal refused"),
        ("max_retries_background", "max_<wbr>retries_<wbr>background"),
        ("__<b>", "__<wbr>&lt;b&gt;"),
        ("", ""),
    ],
)
def test_a_long_name_breaks_between_its_words(name: str, broken: str) -> None:
    assert console.breaks(name) == broken


def test_what_is_unknown_stands_below_the_numbers_of_its_column() -> None:
    table = Table(title="Failures", columns=("From", "transient", "words"), rows=(("a", 3, "x"), ("b", "unknown", "y")))
    assert [row for row, _ in console.led(table)] == [
        [("a", False), (3, True), ("x", False)],
        [("b", False), ("unknown", True), ("y", False)],
    ]
