"""What pages cost: the server in queries and milliseconds, the reader in bytes, in waiting and in jumps.

On made-up facts, in a real browser, throttled to a slow laptop on a slow line.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from recovery_ops.bench.asked import HASTY
from recovery_ops.bench.figures import Figure, Report
from recovery_ops.bench.served import Server, commanded, served

PAGES = {
    "overview": "/",
    "overview of a month": "/?over=30d",
    "capacity": "/capacity",
    "breakers": "/breakers",
    "breaker": "/breakers*",
    "timelines": "/timelines",
    "escalations": "/escalations",
    "failures": "/failures",
    "failure": "/failures*",
    "runs": "/runs",
    "run": "/runs*",
    "policies": "/policies",
    "agents": "/agents",
    "audit": "/audit",
}
"""Pages by name; `*` stands for the first row of the list before it."""
WITH_CHARTS = frozenset({"breaker", "timelines"})
WITH_DRAWINGS = WITH_CHARTS | {"capacity"}
"""Those that the server draws itself have as many elements as a chart, and weigh what lists do."""
CPU_SLOWER, DOWN_MBIT, DELAY_MS = 4, 10, 40
SETTLES_MS = 1_500
LOOKS = 3
"""So often a page is looked at, each time by a browser that was never there."""

AIM_QUERIES, AIM_SERVER_MS, AIM_HTML_KB, AIM_FIRST_KB, AIM_FIRST_CHART_KB = 16, 250, 50, 90, 1_300
AIM_UPDATE_MS = 150
AIM_EXPORT_ROWS, AIM_EXPORT_S = 50_000, 3
FEWEST_ROWS = 100
"""Of fewer, what a file costs whatever is in it would be told as the price of a row."""
AIM_LCP_MS, AIM_LCP_CHART_MS, AIM_INP_MS, AIM_CLS = 1_200, 1_800, 150, 0.05
AIM_NODES, AIM_NODES_CHART, AIM_FIGURE_KB = 3_000, 6_000, 50

OBSERVE = """
window.seen = { lcp: 0, cls: 0, inp: 0 };
const on = (type, note, more = {}) =>
  new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type, buffered: true, ...more });
on("largest-contentful-paint", (one) => (seen.lcp = one.startTime));
on("layout-shift", (one) => one.hadRecentInput || (seen.cls += one.value));
on("event", (one) => one.interactionId && (seen.inp = Math.max(seen.inp, one.duration)), { durationThreshold: 16 });
"""
DRAWN = """async () => {
  const hosts = [...document.querySelectorAll("[data-figure-url]")];
  for (const host of hosts) host.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  while (!hosts.every((host) => host.querySelector(".main-svg"))) await new Promise(requestAnimationFrame);
}"""
"""Waits for every chart of the page; on one without any there is nothing to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much has happened before anybody looks."""

    facts: int = 50_000
    agents: int = 40
    breakers: int = 40
    runs: int = 2_000
    escalations: int = 100


SMALL, LARGE = Scale(), Scale(facts=1_000_000, agents=400, runs=10_000, escalations=2_000)
SCALES = {"small": SMALL, "large": LARGE}


@dataclass(slots=True)
class Seen:
    """What a browser saw of one page."""

    first_kb: float
    lcp_ms: float
    inp_ms: float
    cls: float
    nodes: int
    figure_kb: float
    """The largest figure of the page, as it comes; 0 where there is none."""


class NoBrowser(Exception):
    """There is none here; the text says what would bring one."""


def measure(
    scale: Scale = SMALL, pages: dict[str, str] | None = None, *, cpu_slower: int = CPU_SLOWER, is_hasty: bool = False
) -> list[Report]:
    """Seed and serve, then as `measure_on`."""
    with served() as server:
        numbers = [f"--{name}={number}" for name, number in asdict(scale).items()]
        commanded(server, "-m", "manage", "seed", "--days=7", *numbers)
        return measure_on(server, scale, PAGES if pages is None else pages, cpu_slower=cpu_slower, is_hasty=is_hasty)


def measure_on(
    server: Server, scale: Scale, pages: dict[str, str], *, cpu_slower: int, is_hasty: bool = False
) -> list[Report]:
    """Ask every page of a seeded server from within, then look at it from without; a report for each kind of figure.

    The browser is slowed to `cpu_slower` times less than the machine of the aims, so a slow machine is slowed less.
    `is_hasty` where the times are not wanted, which want many rounds.
    """
    words = [HASTY, *pages.values()] if is_hasty else pages.values()
    told = json.loads(commanded(server, "-m", "recovery_ops.bench.asked", *words))
    asked, share = told["pages"], told["exported"]["share"]
    reports = [*_of_server(asked, pages, scale, share), *_of_export(told["exported"])]
    try:
        paths = {name: asked[path]["path"] for name, path in pages.items()}
        slowed = max(1.0, cpu_slower * share)
        seen = _looked_at(server, paths, slowed, 1 if is_hasty else LOOKS)
    except NoBrowser as error:
        skipped = Figure("every page", None, "ms", note=f"skipped: {error}")
        return [*reports, Report("pages in a browser", [skipped])]
    return [*reports, *_of_browser(seen, f"{cpu_slower} × slower CPU, here by {slowed:.2g}")]


def _of_server(asked: dict[str, Any], wanted: dict[str, str], scale: Scale, share: float) -> list[Report]:
    """Times beside the aims of this machine, whose speed is `share` of the one on which they were stated."""
    on = f"{scale.facts:,} facts, {scale.agents} agents; aims of a machine {1 / share:.2f} × as fast"
    queries, times, sizes = (
        Report(f"pages: queries ({on})"),
        Report(f"pages: server time ({on})"),
        Report("pages: HTML"),
    )
    updates, updated = Report(f"pages: server time of a live update, p95 ({on})"), Report("pages: live update")
    for name, path in wanted.items():
        found = asked[path]
        if not found["path"]:
            queries.figures.append(Figure(name, None, "", note="skipped: its list is empty"))
            continue
        which = found["path"] if path.endswith("*") else ""
        queries.add(name, found["queries"], "queries", aim=AIM_QUERIES, note=which)
        times.add(name, found["server_ms"], "ms", aim=AIM_SERVER_MS / share)
        sizes.add(name, found["html_bytes"] / 1000, "kB", aim=AIM_HTML_KB)
        if "update_ms" in found:
            updates.add(name, found["update_ms"], "ms", aim=AIM_UPDATE_MS / share)
            updated.add(name, found["update_bytes"] / 1000, "kB")
    return [queries, times, sizes, updates, updated]


def _of_export(told: dict[str, Any]) -> list[Report]:
    """Long lists by their rows; of those that are an answer, which is as dear as its page, the whole file."""
    share = told["share"]
    long = Report("pages: export (rows a second of processor time)")
    aim = AIM_EXPORT_ROWS / AIM_EXPORT_S * share
    of_aim = f"{AIM_EXPORT_ROWS:,} in {AIM_EXPORT_S} s on a machine {1 / share:.2f} × as fast"
    for name, one in told["long"].items():
        note = f"{one['rows']:,} rows; {of_aim}"
        rate = one["rows"] / one["cpu_s"] if one["rows"] >= FEWEST_ROWS else None
        long.figures.append(Figure(name, rate, "rows/s", aim=aim, note=note if rate else f"{note}: too few to tell"))
    short = Report("pages: export of a short list (processor time of the answer)")
    for name, one in told["short"].items():
        short.add(name, one["cpu_s"], "s", aim=AIM_EXPORT_S / share, note=f"{one['rows']:,} rows")
    return [long, short]


def _of_browser(seen: dict[str, Seen], slower: str) -> list[Report]:
    profile = f"{slower}, {DOWN_MBIT} Mbit/s, {DELAY_MS} ms"
    first, lcp = Report("pages: first load"), Report(f"pages: largest paint ({profile})")
    inp, cls = Report(f"pages: slowest answer to a key or click ({profile})"), Report("pages: layout shift")
    nodes, figures = Report("pages: elements"), Report("pages: largest figure")
    for name, one in seen.items():
        is_chart = name in WITH_CHARTS
        first.add(name, one.first_kb, "kB", aim=AIM_FIRST_CHART_KB if is_chart else AIM_FIRST_KB)
        lcp.add(name, one.lcp_ms, "ms", aim=AIM_LCP_CHART_MS if is_chart else AIM_LCP_MS)
        inp.add(name, one.inp_ms, "ms", aim=AIM_INP_MS)
        cls.add(name, one.cls, "", aim=AIM_CLS)
        aim = AIM_NODES_CHART if name in WITH_DRAWINGS else AIM_NODES
        nodes.add(name, one.nodes, "elements", aim=aim)
        if is_chart:
            figures.add(name, one.figure_kb, "kB", aim=AIM_FIGURE_KB)
    return [first, lcp, inp, cls, nodes, *([figures] if figures.figures else [])]


def _looked_at(server: Server, paths: dict[str, str], slowed: float, looks: int) -> dict[str, Seen]:
    with _browser() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{server.url}/sign-in")
        name, password = (server.data / "initial-sign-in").read_text().split()
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{server.url}/")
        kept = context.storage_state()
        context.close()
        return {
            name: _middle([_look(browser, kept, server.url + path, slowed) for _ in range(looks)])
            for name, path in paths.items()
            if path
        }


def _middle(looks: Sequence[Seen]) -> Seen:
    """The middle of each figure: one look at a page is as much about what else the machine did."""
    return Seen(*(median(figures) for figures in zip(*map(astuple, looks), strict=True)))


def _look(browser: Any, kept: Any, url: str, slowed: float) -> Seen:
    """One page in a browser that was never here but for its sign-in."""
    context = browser.new_context(storage_state=kept, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Emulation.setCPUThrottlingRate", {"rate": slowed})
    speed = DOWN_MBIT * 1_000_000 / 8
    line = {"offline": False, "latency": DELAY_MS, "downloadThroughput": speed, "uploadThroughput": speed}
    session.send("Network.emulateNetworkConditions", line)
    came: list[float] = []
    session.on("Network.loadingFinished", lambda event: came.append(event["encodedDataLength"]))
    page.add_init_script(OBSERVE)
    page.goto(url, wait_until="load")
    page.wait_for_timeout(SETTLES_MS)
    first_kb = sum(came) / 1000
    painted = page.evaluate("seen")  # before the first key: what comes later is not of the load
    for key in ("Tab", "Tab", "j"):
        page.keyboard.press(key)
    page.get_by_role("button", name="Switch theme").click()
    page.wait_for_timeout(SETTLES_MS)
    inp_ms = page.evaluate("seen.inp")
    nodes, figure_kb = _drawn(page)
    context.close()
    return Seen(first_kb, painted["lcp"], inp_ms, painted["cls"], nodes, figure_kb)


def _drawn(page: Any) -> tuple[int, float]:
    """How many elements a page has once its charts are drawn, and how many kB its largest figure is, as it comes."""
    page.evaluate(DRAWN)
    hosts = "[...document.querySelectorAll('[data-figure-url]')].map((one) => new URL(one.dataset.figureUrl, location))"
    came = f"{hosts}.map(({{ href }}) => performance.getEntriesByName(href).at(-1).encodedBodySize)"
    return page.evaluate("document.querySelectorAll('*').length"), max(page.evaluate(came), default=0) / 1000


@contextmanager
def _browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright  # of the tests' environment, not the server's
    except ImportError as error:
        raise NoBrowser("Playwright is not installed: `manage.py test --version` brings it") from error
    names = ("chromium", "chromium-browser", "google-chrome", "chrome", "chromium-headless-shell")
    path = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        if path is None and not Path(playwright.chromium.executable_path).exists():
            raise NoBrowser("there is no Chromium or Chrome")
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield launched
        launched.close()
