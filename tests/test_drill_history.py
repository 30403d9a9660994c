"""What senders saw, put into figures."""

from __future__ import annotations

from recovery_ops.drill.history import History


def test_how_soon_a_status_was_answered_is_counted_from_the_moment() -> None:
    history = History("dev", answers=[(9.0, 503), (10.5, 200), (11.25, 503), (12.0, 200)])
    assert history.until_answered({503}, 10.0) == 1.25
    assert history.until_answered({200}, 11.0) == 1.0
    assert history.until_answered({400}, 0.0) is None
    assert history.until_answered({503}, 12.5) is None


def test_each_try_is_noted_with_its_moment() -> None:
    history = History("dev")
    history.note_try(503)
    history.note_try(200)
    assert [status for _, status in history.answers] == [503, 200]
    assert history.answers[0][0] <= history.answers[1][0]


def test_the_longest_time_without_an_answer_counts_from_the_first_try_to_the_last() -> None:
    history = History("dev", answers=[(1.0, 503), (4.0, 200), (4.5, 0), (6.0, 200), (7.0, 0)])
    assert history.longest_without(200) == 3.0
    assert History("dev", answers=[(1.0, 200), (2.0, 200), (9.0, 0)]).longest_without(200) == 7.0
    assert History("dev").longest_without(200) == 0.0
