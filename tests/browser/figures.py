"""Every figure that two screens show, read from each of them: pages in a browser, files and the API beside them."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page

ROUNDS = 8
"""So often the screens are read until they agree: a live fleet reports between two of them."""
_EACH_MOST = 3
"""Pages of single rows that are opened for each list."""
_READ = "[...document.querySelectorAll('body *')].filter((one) => Object.keys(one.dataset).length)"
_DATA = f"() => {_READ}.map((one) => ({{ ...one.dataset }}))"
_NUMBERS = (
    "(one) => [...one.tBodies[0].rows].map((row) => [...row.querySelectorAll('.num')].map((it) => it.textContent))"
)

Values = dict[str, dict[str, Any]]
"""By figure, what each screen shows."""


@dataclass
class Screens:
    """The screens of one environment, and what was read of them."""

    page: Page
    origin: str
    environment: str
    span: Mapping[str, str]
    """The fixed range: `from` and `to`."""
    values: Values = field(default_factory=lambda: defaultdict(dict))

    def note(self, figure: str, screen: str, value: object) -> None:
        self.values[figure][screen] = str(value)

    def shown(self, path: str, **query: str) -> list[dict[str, str]]:
        """The data attributes of a page's elements, in order."""
        asked = urlencode({"environment": self.environment, **query})
        answer = self.page.goto(f"{self.origin}{path}?{asked}", wait_until="domcontentloaded")
        assert answer is not None
        assert answer.ok, f"{path}: {answer.status}"
        found: list[dict[str, str]] = self.page.evaluate(_DATA)
        return found

    def numbers(self, path: str, **query: str) -> list[list[int]]:
        """The rows of the first table of the timelines, of each its numbers."""
        self.shown(path, **query)
        rows: list[list[str]] = self.page.locator("#tables table").first.evaluate(_NUMBERS)
        return [[int(re.sub(r"\D", "", cell) or 0) for cell in row] for row in rows]

    def told(self, path: str, **query: str) -> Any:
        """What the API answers."""
        asked = urlencode({"environment": self.environment, **query})
        answer = self.page.request.get(f"{self.origin}/api/v1/{path}?{asked}")
        assert answer.ok, answer.text()
        return answer.json()

    def every(self, path: str, key: str, **query: str) -> list[dict[str, Any]]:
        """All rows of a list of the API."""
        told = self.told(path, limit="200", **query)
        rows: list[dict[str, Any]] = told[key]
        while told["next"] is not None:
            answer = self.page.request.get(f"{self.origin}{told['next']}")
            assert answer.ok, answer.text()
            told = answer.json()
            rows += told[key]
        return rows

    def filed(self, path: str, **query: str) -> list[dict[str, str]]:
        """The rows of a CSV file."""
        return list(csv.DictReader(StringIO(self._body(path, **query).decode("utf-8-sig"))))

    def rows_filed(self, path: str, **query: str) -> list[dict[str, Any]]:
        """The rows of a JSON file."""
        rows: list[dict[str, Any]] = json.loads(self._body(path, format="json", **query))["rows"]
        return rows

    def _body(self, path: str, **query: str) -> bytes:
        asked = urlencode({"environment": self.environment, **query})
        answer = self.page.request.get(f"{self.origin}{path}?{asked}")
        assert answer.ok, answer.text()
        return answer.body()


def having(shown: list[dict[str, str]], *names: str) -> Iterator[dict[str, str]]:
    """The elements with all of these data attributes."""
    return (one for one in shown if all(name in one for name in names))


def keyed(shown: list[dict[str, str]], before: str, *names: str) -> dict[str, dict[str, str]]:
    """The rows of a list with these data attributes, by what follows `before` in their keys."""
    rows = having(shown, "key", *names)
    return {one["key"].removeprefix(before): one for one in rows if one["key"].startswith(before)}


def settled_differences(screens: Screens) -> list[str]:
    """What still differs when the screens were read again and again: a report between two of them is no difference."""
    known: Values = {}
    for read in (read_range, read_now):
        for _ in range(ROUNDS):
            screens.values = defaultdict(dict)
            read(screens)
            known |= {
                name: shown for name, shown in screens.values.items() if name not in known or _differs(known[name])
            }
            if not any(_differs(known[name]) for name in screens.values):
                break
    screens.values = known
    return [f"{name}: {shown}" for name, shown in known.items() if _differs(shown)]


def _differs(shown: Mapping[str, Any]) -> bool:
    """Whether two screens show it differently, or one screen alone shows it."""
    return len(set(shown.values())) != 1 or len(shown) < 2


def span_of(start: datetime, end: datetime) -> dict[str, str]:
    """A range as addresses name it, in whole seconds."""
    return {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in (("from", start), ("to", end))}


def read_range(screens: Screens) -> None:
    """The figures of a range that is over."""
    _read_failures(screens)
    _read_runs(screens)
    _read_incidents(screens)
    _read_attempts(screens)
    _read_degradations(screens)
    _read_timelines(screens)


def read_now(screens: Screens) -> None:
    """The figures of this moment."""
    overview = screens.shown("/")
    for screen, shown in (("overview", overview), ("wallboard", screens.shown("/wallboard"))):
        for tile in having(shown, "tile", "figure"):
            screens.note(f"now {tile['tile']}", screen, tile["figure"])
            if "of" in tile:
                screens.note(f"now {tile['tile']} of", screen, tile["of"])
    if screens.told("status")["agents"]["reporting"] == 0:  # nothing blocks or waits that anybody knows of
        assert {screens.values[name]["overview"] for name in ("now breakers", "now waiting")} == {"–"}
        del screens.values["now breakers"], screens.values["now waiting"]
    _read_counts(screens)
    _read_breakers(screens)
    _read_agents(screens)
    _read_escalations(screens)
    _read_report(screens)


def _read_counts(screens: Screens) -> None:
    """The numbers beside the names of the navigation."""
    answer = screens.page.request.get(f"{screens.origin}/counts", headers={"X-Fragment": "counts"})
    counts = dict(re.findall(r'id="(count-\w+)" data-count="(\d+)"', answer.text()))
    screens.note("now breakers", "navigation", counts["count-breakers"])
    screens.note("now escalations", "navigation", counts["count-escalations"])
    screens.note("now incidents", "navigation", counts["count-capacity"])
    screens.note("now silent agents", "navigation", counts["count-agents"])


def _read_breakers(screens: Screens) -> None:
    shown = screens.shown("/breakers")
    [heading] = having(shown, "blocking", "dark")
    told, status = screens.every("breakers", "breakers"), screens.told("status")
    blocking = screens.every("breakers", "breakers", show="blocking")
    screens.note("now breakers", "list", heading["blocking"])
    screens.note("now breakers", "API", len(blocking))
    screens.note("now breakers", "API status", status["breakers"]["not_flowing"])
    screens.note("now breakers of", "list", heading["total"])
    screens.note("now breakers of", "API", len(told))
    screens.note("now breakers of", "API status", status["breakers"]["total"])
    screens.note("breakers with trouble", "list", heading["troubled"])
    screens.note("breakers with trouble", "API", len(screens.every("breakers", "breakers", show="troubled")))
    screens.note("breakers with trouble", "file", len(screens.filed("/breakers", show="troubled", format="csv")))
    rows = keyed(shown, "breaker-", "state")
    documents = {one["name"]: one for one in told}
    for name in list(rows)[:_EACH_MOST]:
        [own] = having(screens.shown(f"/breakers/{name}"), "state", "instances")
        for screen, state, instances in (
            ("list", rows[name]["state"], rows[name]["instances"]),
            ("page", own["state"], own["instances"]),
            ("API", documents[name]["worst"] or "", documents[name]["instances"]),
        ):
            screens.note(f"breaker {name}", screen, state)
            screens.note(f"breaker {name}, instances", screen, instances)


def _read_agents(screens: Screens) -> None:
    tiles = {one["tile"]: one for one in having(screens.shown("/agents"), "tile", "figure")}
    status = screens.told("status")["agents"]
    screens.note("now agents", "list", tiles["agents"]["figure"])
    screens.note("now agents", "API status", status["reporting"])
    screens.note("now agents of", "list", tiles["agents"]["of"])
    screens.note("now agents of", "API status", status["total"])
    screens.note("now silent agents", "list", int(tiles["agents"]["of"]) - int(tiles["agents"]["figure"]))
    if status["reporting"] == 0:
        return
    _read_waiting(screens)


def _read_waiting(screens: Screens) -> None:
    """Runs wait for seconds, so the list is read before and after the others, until it is the same both times."""
    for _ in range(ROUNDS):
        before = _waiting_runs(screens)
        screens.values["now waiting"] = {"runs": before}
        for screen, path in (("overview", "/"), ("wallboard", "/wallboard"), ("agents", "/agents")):
            tiles = {tile["tile"]: tile["figure"] for tile in having(screens.shown(path), "tile", "figure")}
            screens.note("now waiting", screen, tiles["waiting"])
        if before == _waiting_runs(screens):
            return


def _waiting_runs(screens: Screens) -> str:
    waiting = screens.shown("/runs", show="running", status="waiting_on_capacity", range="24h")
    return next(having(waiting, "total"), {"total": "0"})["total"]


def _read_escalations(screens: Screens) -> None:
    [heading] = having(screens.shown("/escalations"), "asked", "untaken")
    opened = screens.every("escalations", "escalations")
    screens.note("now escalations", "list", heading["untaken"])
    screens.note("now escalations", "API", len(screens.every("escalations", "escalations", tab="unacknowledged")))
    screens.note("now escalations of", "list", heading["asked"])
    screens.note("now escalations of", "API", len(opened))
    screens.note("now escalations of", "file", len(screens.filed("/escalations", format="csv")))
    ongoing = screens.every("capacity/events", "events", going_on="true")
    screens.note("now incidents", "API", len(ongoing))


def _read_failures(screens: Screens) -> None:
    span = screens.span
    shown = screens.shown("/failures", **span)
    [heading] = having(shown, "failures", "causes")
    told = {one["fingerprint"]: one for one in screens.every("failures", "failures", **span)}
    file = screens.filed("/failures", format="csv", **span)
    screens.note("issues", "list", heading["causes"])
    screens.note("issues", "API", len(told))
    screens.note("issues", "file", len(file))
    screens.note("failed attempts", "issues", heading["failures"])
    screens.note("failed attempts", "API", sum(one["failures"] for one in told.values()))
    rows = keyed(shown, "failure-", "failures")
    for fingerprint in list(rows)[:_EACH_MOST]:
        [own] = having(screens.shown(f"/failures/{fingerprint}", **span), "issue", "failures")
        document = told[fingerprint]
        for name in ("failures", "instances", "runs"):
            screens.note(f"issue {fingerprint}, {name}", "list", rows[fingerprint][name])
            screens.note(f"issue {fingerprint}, {name}", "page", own[name])
            screens.note(f"issue {fingerprint}, {name}", "API", document[name])


def _read_runs(screens: Screens) -> None:
    span = screens.span
    for show in ("troubled", "failed", "asked", "all"):
        shown = screens.shown("/runs", show=show, **span)
        total = next(having(shown, "total"), {"total": "0"})
        screens.note(f"runs, {show}", "list", total["total"])
        screens.note(f"runs, {show}", "API", len(screens.every("runs", "runs", show=show, **span)))
        screens.note(f"runs, {show}", "file", len(screens.filed("/runs", show=show, format="csv", **span)))
    shown = screens.shown("/runs", show="troubled", **span)
    told = {one["run"]: one for one in screens.told("runs", show="troubled", **span)["runs"]}
    rows = keyed(shown, "run-", "failures", "standing")
    for run in list(rows)[:_EACH_MOST]:
        [own] = having(screens.shown(f"/runs/{run}"), "run", "failures", "standing")
        for name, key in (("failures", "failed_attempts"), ("level", "rung"), ("standing", "standing")):
            screens.note(f"run {run}, {name}", "list", rows[run][name])
            screens.note(f"run {run}, {name}", "page", own[name])
            screens.note(f"run {run}, {name}", "API", told[run][key])


def _read_incidents(screens: Screens) -> None:
    span = screens.span
    overview = {one["tile"]: one for one in having(screens.shown("/", **span), "tile", "figure")}
    shown = screens.shown("/capacity", **span)
    tiles = {one["tile"]: one for one in having(shown, "tile", "figure")}
    short = int(tiles["429"]["failures"]) + int(tiles["529"]["failures"])
    screens.note("429 and 529", "overview", overview["capacity"]["total"])
    screens.note("429 and 529", "capacity", short)
    told = {str(one["number"]): one for one in screens.every("capacity/events", "events", **span)}
    file = {one["event"].removeprefix("CE-"): one for one in screens.filed("/capacity", format="csv", **span)}
    rows = keyed(shown, "event-", "owner", "runs")
    screens.note("incidents", "list", len(rows))
    screens.note("incidents", "API", len(told))
    screens.note("incidents", "file", len(file))
    whole = [number for number, row in rows.items() if row["parts"] != "0"]
    for number in [*whole, *(one for one in rows if one not in whole)][:_EACH_MOST]:
        page = screens.shown(f"/capacity/{number}")
        [own] = having(page, "incident")
        detail = screens.told(f"capacity/events/{number}")["event"]
        for name, key, column in (
            ("failures", "failures", "failed attempts"),
            ("runs", "runs", "runs"),
            ("instances", "instances", "instances"),
            ("peak", "peak_per_min", "worst minute"),
        ):
            figure = f"incident {number}, {name}"
            screens.note(figure, "list", rows[number][name])
            screens.note(figure, "page", own[name])
            screens.note(figure, "API list", told[number][key])
            screens.note(figure, "API", detail[key])
            screens.note(figure, "file", file[number][column])
        screens.note(f"incident {number}, owner", "list", rows[number]["owner"])
        screens.note(f"incident {number}, owner", "page", own["owner"])
        screens.note(f"incident {number}, owner", "API", detail["owner"])
        affected = next(having(page, "allRuns"), {"allRuns": "0"})
        screens.note(f"incident {number}, runs", "list of its runs", affected["allRuns"])


def _read_attempts(screens: Screens) -> None:
    span = screens.span
    shown = screens.shown("/amplification", **span)
    [heading] = having(shown, "calls", "attempted")
    told = screens.told("amplification", **span)
    file = screens.filed("/amplification.csv", **span)
    for name, key, column in (
        ("calls", "calls", "calls"),
        ("attempted", "attempted_calls", "attempted_calls"),
        ("attempts", "attempts", "attempts"),
    ):
        screens.note(f"amplification, {name}", "page", heading[name])
        screens.note(f"amplification, {name}", "API", told[key])
        screens.note(f"amplification, {name}", "file", sum(int(line[column]) for line in file))
    rows = keyed(shown, "spent-", "failures")
    screens.note("failed attempts", "amplification", sum(int(one["failures"]) for one in rows.values()))


def _read_degradations(screens: Screens) -> None:
    span = screens.span
    rows = keyed(screens.shown("/degradations", **span), "reduced-", "answers")
    told = screens.every("degradations", "degradations", **span)
    file = screens.filed("/degradations.csv", **span)
    screens.note("degradations", "list", len(rows))
    screens.note("degradations", "API", len(told))
    screens.note("degradations", "file", len(file))
    screens.note("degradations, answers", "list", sum(int(one["answers"]) for one in rows.values()))
    screens.note("degradations, answers", "API", sum(one["weaker_answers"] for one in told))
    screens.note("degradations, answers", "file", sum(int(one["weaker_answers"]) for one in file))


def _read_timelines(screens: Screens) -> None:
    """The bands of counts, added up: their tables on the page and as files."""
    for band, figure in (
        ("failures", "failed attempts"),
        ("capacity", "429 and 529"),
        ("rejections", "rejected calls"),
        ("fallbacks", "degradations, answers"),
    ):
        shown = screens.numbers("/timelines", band=band, view="table", **screens.span)
        filed = screens.rows_filed("/timelines", band=band, **screens.span)
        first = -1 if band == "fallbacks" else 0  # of a fallback the last number is its answers
        cells = [one for row in filed for one in list(row.values())[first:]]
        if first and not all(isinstance(one, int) for one in cells):
            continue  # an instance that has not ended it has not reported its answers
        screens.note(figure, "timelines", sum(one for row in shown for one in row[first:]))
        screens.note(figure, "file of timelines", sum(one for one in cells if isinstance(one, int)))


def _read_report(screens: Screens) -> None:
    """Weeks up to now: the page, its files and the API."""
    shown, told = screens.shown("/report"), screens.told("report")
    weeks = {one["week"]: one for one in screens.filed("/report.csv")}
    every = {(one["section"], one["of"], one["figure"]): one["value"] for one in screens.filed("/report.csv", of="all")}
    tiles = {one["tile"]: one for one in having(shown, "tile", "figure")}
    total, recovery = told["total"], told["recovery"]
    for tile, key, document, name, column in (
        ("opened", "asked", total, "asked", "asked"),
        ("opened", "defaulted", total, "by_default", "answered_by_default"),
        ("mtta", "of", total["acknowledging"], "count", ""),
        ("mttr", "of", total["resolving"], "count", ""),
        ("ack", "kept", total["acknowledged_in_time"], "kept", "taken_in_time"),
        ("ack", "of", total["acknowledged_in_time"], "of", "taken_due"),
        ("resolve", "kept", total["resolved_in_time"], "kept", "resolved_in_time"),
        ("resolve", "of", total["resolved_in_time"], "of", "resolved_due"),
        ("recovered", "alone", recovery["runs"], "alone", "runs_recovered_alone"),
        ("recovered", "troubled", recovery["runs"], "troubled", ""),
        ("lost", "lost", recovery["runs"], "lost", "runs_lost"),
        ("lost", "ended", recovery["runs"], "ended", ""),
    ):
        figure = f"report {tile}, {key}"
        screens.note(figure, "page", tiles[tile][key])
        screens.note(figure, "API", document[name] or 0)
        if column:
            screens.note(figure, "file", sum(int(one[column] or 0) for one in weeks.values()))
    for tile, name in (("mtta", "acknowledging"), ("mttr", "resolving")):
        if total[name]["median_s"] is not None:
            screens.note(f"report {tile}", "page", tiles[tile]["median"])
            screens.note(f"report {tile}", "API", round(total[name]["median_s"]))
            screens.note(f"report {tile}", "file", round(float(every["report", "", f"{name}.median_s"])))
    for tile, name in (("saved", "saved_s"), ("failed-time", "lost_s")):
        screens.note(f"report {tile}", "page", tiles[tile]["seconds"])
        screens.note(f"report {tile}", "API", round(recovery["time"][name] or 0))
        screens.note(f"report {tile}", "file", round(float(every["time", "", name] or 0)))
    documents = {one["start"][:10]: one for one in told["weeks"]}
    for week in having(shown, "week"):
        for key, name, column in (
            ("asked", "asked", "asked"),
            ("failed", "failed_attempts", "failed_attempts"),
            ("exhausted", "given_up", "given_up_calls"),
            ("defaulted", "by_default", "answered_by_default"),
        ):
            figure = f"week {week['week']}, {key}"
            screens.note(figure, "page", week[key])
            screens.note(figure, "API", documents[week["week"]][name])
            screens.note(figure, "file", weeks[week["week"]][column])
    for number, row in list(keyed(shown, "event-", "owner", "runs").items())[:_EACH_MOST]:
        [own] = having(screens.shown(f"/capacity/{number}"), "incident")
        for key, name in (("failed", "failures"), ("runs", "runs"), ("owner", "owner")):
            screens.note(f"incident {number} now, {name}", "report", row[key])
            screens.note(f"incident {number} now, {name}", "page", own[name])
        for name in ("failures", "runs"):
            screens.note(f"incident {number} now, {name}", "file of report", every["outages", f"CE-{number}", name])
