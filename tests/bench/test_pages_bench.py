"""The measurement of pages at its smallest: everything is measured, and what does not hang on the machine is kept."""

from __future__ import annotations

import pytest

from recovery_ops.bench import pages
from recovery_ops.bench.asked import LONG
from tests.support.pages_bench import over

LIGHT = {name: pages.PAGES[name] for name in ("overview", "overview of a month", "failure", "timelines")}


@pytest.mark.usefixtures("chromium")
def test_pages_keep_their_budgets_on_made_up_facts() -> None:
    reports = pages.measure(
        pages.Scale(facts=3_000, agents=12, breakers=12, runs=200), LIGHT, cpu_slower=1, is_hasty=True
    )
    found = {report.name.partition(" (")[0]: report for report in reports}
    assert list(found) == [
        *("pages: queries", "pages: server time", "pages: HTML"),
        *("pages: server time of a live update, p95", "pages: live update"),
        *("pages: export", "pages: export of a short list"),
        *(
            "pages: first load",
            "pages: largest paint",
            "pages: slowest answer to a key or click",
            "pages: layout shift",
            "pages: elements",
            "pages: largest figure",
        ),
    ]
    drawn = found.pop("pages: largest figure")
    assert [one.what for one in drawn.figures] == ["timelines"]
    assert drawn.figures[0].value, "it came, and its size is known"
    exported, short = found.pop("pages: export").figures, found.pop("pages: export of a short list").figures
    assert {one.what for one in exported} == set(LONG)
    assert all(one.value or "too few to tell" in one.note for one in exported)
    assert any(one.value for one in exported if one.what == "runs that met a failure")
    assert [one.what for one in short] == ["breakers", "agents", "failures", "capacity", "failures unclassified"]
    assert all(one.value for one in short)
    updates, updated = found.pop("pages: server time of a live update, p95"), found.pop("pages: live update")
    assert {one.what for one in updates.figures} == {one.what for one in updated.figures} >= {"overview", "timelines"}
    assert all(one.value for one in (*updates.figures, *updated.figures))
    assert all({one.what for one in report.figures} == set(LIGHT) for report in found.values())
    assert over(drawn) == []
    for name in ("pages: queries", "pages: HTML", "pages: first load", "pages: layout shift", "pages: elements"):
        assert over(found[name]) == []
    assert all(one.value for one in found["pages: largest paint"].figures)
    notes = {one.what: one.note for one in found["pages: queries"].figures}
    assert notes["failure"].startswith("/failures/"), "the page of a cause, whatever table its list begins with"
