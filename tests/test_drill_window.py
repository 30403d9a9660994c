"""What killed agents said, put into the window in which a kill catches facts."""

from __future__ import annotations

from recovery_ops.drill.window import Window, words_of

SAID = """.
a 800000 EVENT
.
.
b 4000 EVENT
c 1000 ALWAYS
.
.
d 70"""
"""Five were told, three committed; the fourth was cut off while it was said."""


def test_told_and_not_committed_is_what_a_kill_catches() -> None:
    window = Window.of(SAID)
    assert list(window.kept) == ["a", "b", "c"]
    assert (window.told, window.caught) == (5, 2)
    assert (window.first_s, window.kept_s, window.urgent_s) == (0.8, [0.004, 0.001], [0.001])


def test_the_longest_time_of_all_kills_is_told_and_that_of_transitions_by_itself() -> None:
    slow = Window.of(".\na 500000 EVENT\n.\n.\nb 31000 EVENT\nc 2000 ALWAYS\n")
    told = words_of([Window.of(SAID), slow])
    assert told.startswith("2 kills caught 2 facts that were told and in no file yet, 2 at most; ")
    assert "3 ms at the median and 31 ms at most, for transitions 2 and 2 ms; 0.8 s for the first fact" in told


def test_who_was_killed_before_a_word_caught_what_it_told() -> None:
    assert Window.of(".\n.\n").caught == 2
    assert "0 ms at most" in words_of([Window.of("")])
