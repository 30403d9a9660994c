"""What people come for, from the first look to the answer, with a picture of where each way ends. Eight of them, found
by their numbers: `pytest tests/browser -k scenario_3`; the last two stand in `test_scenarios_afterwards.py`.
"""

from __future__ import annotations

import re
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from events.capacity.rows import OWNER_WORDS, Owner
from recovery_ops.rules.enums import Category, DelaySource, RunStatus, State, Trigger
from recovery_ops.rules.events import (
    Escalated,
    RetryScheduled,
    RunFinished,
    RunStarted,
)
from tests.browser.journeys import PATIENCE_MS, Hands, Visit, fresh, picture, point_at
from tests.browser.stage import INSTANCES, Stage
from tests.support.agents import manage
from tests.support.processes import Server, eventually
from tests.support.stories import failed, heartbeat, moved
from tests.support.webhook_receiver import Receiver, receiver

# -- 1: from a message in Slack to whose trouble it is ----------------------------------------------------------------
RUNS_WAITING = 14
WAITING = re.compile(rf"\b{RUNS_WAITING}\b")
CLOCK = re.compile(r"\d\d:\d\d:\d\d")
ANSWER = "The editors have published it by hand."
KEYS = "rows => rows.map(row => row.dataset.key)"
KEYS_AROUND = "all => all.map(one => one.closest('tr').dataset.key)"


@pytest.fixture
def channel() -> Iterator[Receiver]:
    """What stands for Slack."""
    with receiver() as found:
        yield found


@pytest.fixture
def told_in_slack(channel: Receiver, browser: Browser, tmp_path: Path) -> Iterator[Stage]:
    """A console that tells a channel of outages; one backend answers 529, runs wait for it, a breaker tries again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    data = tmp_path / "data"
    with Server(data, "--port", port, env={"RECOVERY_OPS_NOTIFY_HOSTS": channel.host}) as server:
        stage = Stage(server, data).open_doors()
        stage.passwords["chief"] = manage(data, "account", "create", "chief", "--role", "admin")
        with browser.new_context() as context:
            told_of_outages(stage.sign_in(context, "chief"), channel.url)
        with stage.beating():
            overloaded_with_runs_that_wait(stage)
            yield stage


def told_of_outages(page: Page, address: str) -> None:
    """Somebody sets up a channel, and a rule that outages are told there."""
    home, why = f"{page.url}settings/notifications", "Who is on call reads it there."
    page.goto(f"{home}/channels/new/slack")
    page.locator("input[name=name]").fill("on call")
    page.locator("input[name=address]").fill(address)
    page.get_by_label("Reason").fill(why)
    page.locator("form.act button[data-kind=primary]").click()
    page.wait_for_url(f"{home}*")
    expect(page.get_by_role("table").filter(has_text="on call").first).to_be_visible()
    page.goto(f"{home}/rules/new")
    page.get_by_label("Channel").select_option(page.locator("#id_channel option").last.get_attribute("value"))
    page.locator("input[name=name]").fill("outages")
    for box in page.locator("input[name=triggers]").all():
        box.set_checked(box.get_attribute("value") == "capacity")
    page.locator("input[name=group_s]").fill("0")
    page.get_by_label("Reason").fill(why)
    page.locator("form.act button[data-kind=primary]").click()
    expect(page.get_by_role("table").filter(has_text="outages").first).to_be_visible()


def overloaded_with_runs_that_wait(stage: Stage) -> None:
    """Each run failed and says that it tries again in ten minutes."""
    overloaded = failed(Category.OVERLOADED, "model:large", provider="helios", model="large", status_code=529)
    waits = RetryScheduled(
        operation="model:large",
        attempt=2,
        delay_s=600.0,
        delay_source=DelaySource.RETRY_AFTER,
        category=Category.OVERLOADED,
        max_retries=3,
    )
    for instance in INSTANCES:
        stage.tell(heartbeat(), moved(State.CLOSED, breaker="model:large"), instance=instance)
    opened = moved(State.OPEN, breaker="model:large", trigger=Trigger.FAILURE_RATE)
    trying = moved(State.HALF_OPEN, before=State.OPEN, breaker="model:large", trigger=Trigger.WAIT_ELAPSED)
    for number in range(RUNS_WAITING):
        run: dict[str, Any] = {"instance": f"r-{number % 3}", "run": f"waits-{number}"}
        stage.tell(overloaded, **run)
        stage.tell(waits, **run)
    stage.tell(opened, instance="r-0")
    stage.tell(trying, instance="r-0")


def link_in(channel: Receiver) -> str:
    """The link of the first message about an outage."""
    texts = [one.said["text"] for one in channel.got]
    found = [re.search(r"<(http[^|>]+/capacity/[^|>]+)\|", text) for text in texts]
    return found[0][1] if found and found[0] else ""


def test_scenario_1_from_a_slack_link_to_whose_trouble_it_is_without_a_click(
    browser: Browser, told_in_slack: Stage, channel: Receiver, tmp_path: Path
) -> None:
    eventually(lambda: bool(link_in(channel)), what="the message in Slack")
    link = link_in(channel)
    with browser.new_context() as context:
        page = told_in_slack.sign_in(context)
        page.goto(link)
        facts = page.get_by_role("region", name="Impact")
        expect(facts).to_contain_text(WAITING, timeout=2 * PATIENCE_MS)  # the worker has looked
        page.goto(told_in_slack.server.url)
        began = time.monotonic()
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_contain_text("helios / large")
        said = page.locator(".page-head p[data-announce]")
        expect(said).to_contain_text(re.compile(OWNER_WORDS[Owner.PROVIDER], re.IGNORECASE))
        expect(said).to_contain_text(re.compile(rf"\b{RUNS_WAITING}\b\D+\b3\b\D+\b{RUNS_WAITING}\b"))
        expect(facts).to_contain_text("529 (")
        expect(facts).to_contain_text(re.compile(r"model:large\b.*\bhalf-open\b.*\b1 of 3"))
        assert time.monotonic() - began < 10
        picture(page, tmp_path, "event")
        page.get_by_role("link", name="Overview").first.click()
        expect(page.locator("#overview .page-head p")).to_contain_text("helios")
        picture(page, tmp_path, "overview")
        page.get_by_role("link", name="helios / large is overloaded", exact=True).click()
        expect(facts).to_contain_text("half-open")


# -- 2: a trip of a whole fleet ---------------------------------------------------------------------------------------
FLEET = 40


@pytest.fixture
def fleet(stage: Stage) -> Iterator[str]:
    """Forty instances that live, all with one breaker, whose name is given."""
    number = next(fresh)
    instances = [f"fleet-{number}-{place:02d}" for place in range(FLEET)]
    name = f"billing.charge{number}"
    for instance in instances:
        stage.tell(heartbeat(), moved(State.CLOSED, breaker=name), instance=instance)
    stage.beats += instances
    yield name
    for instance in instances:
        stage.beats.remove(instance)


def test_scenario_2_a_fleet_wide_trip_is_seen_applied_by_name_and_ends_by_itself(
    visit: Visit, stage: Stage, fleet: str, tmp_path: Path
) -> None:
    instances = stage.beats[-FLEET:]
    second = visit(f"/breakers/{fleet}/disable")
    page = visit(f"/breakers/{fleet}/trip")
    why = "The ledger takes every charge twice."
    expect(page.locator("form.act")).to_contain_text(re.compile(rf"instances\s*{FLEET}"))
    page.get_by_label("Reason").fill(why)
    picture(page, tmp_path, "form")
    page.get_by_role("button", name="Trip breaker").click()
    observed = page.get_by_role("region", name="Observed")
    expect(observed).to_contain_text(re.compile(rf"\b0/{FLEET}\D+\b{FLEET}\b"))
    desired = page.get_by_role("region", name="Desired")
    expect(desired).to_contain_text(why)
    revision = int(re.findall(r"revision (\d+)", desired.inner_text())[0])
    for instance in instances[:-3]:
        stage.obey(instance, revision)
        stage.tell(moved(State.FORCED_OPEN, breaker=fleet, trigger=Trigger.OPERATOR_TRIP), instance=instance)
    expect(observed).to_contain_text(re.compile(r"\b37/40\D+\b3\b"), timeout=PATIENCE_MS)
    for instance in instances[-3:]:
        expect(observed).to_contain_text(instance)
    expect(page.get_by_role("heading", level=1)).to_contain_text("forced open 37/40", timeout=PATIENCE_MS)
    picture(page, tmp_path, "tripped")
    second.get_by_label("Reason").fill("It refuses what is good, too.")
    with second.expect_response(lambda answer: answer.request.method == "POST") as answered:
        second.get_by_role("button", name="Disable breaker").click()
    assert answered.value.status == 409
    expect(second.get_by_role("alert")).to_contain_text(re.compile(rf"\boperator\b.*{re.escape(fleet)}"))
    picture(second, tmp_path, "second")
    # Time passes: the store says that the end has come, and the next look of the worker finds it.
    with closing(sqlite3.connect(stage.data / "db.sqlite3", timeout=10)) as store, store:
        ended = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        store.execute("UPDATE control_override SET expires_at = ? WHERE operation = ?", (ended, fleet))
    expect(desired).not_to_contain_text(why, timeout=PATIENCE_MS)
    page.goto(f"{stage.server.url}/audit")
    entries = page.locator("main tbody tr", has_text=fleet)
    expect(entries.filter(has_text="tripped").first).to_contain_text(why)
    expect(entries.filter(has_text="ended").first).to_be_visible()
    picture(page, tmp_path, "audit")


# -- 3: a queue is cleared by keyboard --------------------------------------------------------------------------------
QUESTIONS = 20


@pytest.fixture
def queue(stage: Stage) -> str:
    """A queue of the test's own, with questions: whoever tries again begins with one that nobody has cleared."""
    name = f"editors-{next(fresh)}"
    for number in range(QUESTIONS):
        asked = Escalated(operation=f"publish_{number}", queue=name, reason="policy_denied", message=f"May {number}?")
        stage.tell(asked, run=f"{name}-{number}")
    return name


def test_scenario_3_twenty_questions_are_triaged_without_a_mouse_and_one_taken_along(
    visit: Visit, queue: str, tmp_path: Path
) -> None:
    page = visit(f"/escalations?queue={queue}")
    hands = Hands(page)
    rows = page.locator("table[data-queue] tbody tr")
    expect(rows).to_have_count(QUESTIONS, timeout=PATIENCE_MS)
    notices = page.get_by_role("status", name="Notices")
    began = time.monotonic()
    hands.choose(QUESTIONS)
    expect(page.get_by_text(f"{QUESTIONS} selected")).to_be_visible()
    picture(page, tmp_path, "chosen")
    hands.press("a")
    expect(notices).to_contain_text("acknowledged", timeout=PATIENCE_MS)
    expect(rows.filter(has_text="operator")).to_have_count(QUESTIONS, timeout=PATIENCE_MS)
    left = QUESTIONS
    for key, button, told, count, why in (
        ("y", "Approve", "approved", 10, "Each of them was read and is right."),
        ("r", "Resolve", "resolved", 6, ANSWER),
        ("s", "Snooze", "snoozed", 4, "They come back on Monday."),
    ):
        hands.choose(count)
        hands.press(key)
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("heading", name=re.compile(f"^{button}"))).to_be_visible()
        if key == "s":  # before its deadline
            hands.go_to(dialog.get_by_role("radio", name="1 h", exact=True))
            hands.press("ArrowLeft")
        hands.go_to(dialog.get_by_label("Reason"))
        hands.type(why)
        hands.go_to(dialog.get_by_role("button", name=button))
        hands.press("Enter")
        left -= count
        expect(notices).to_contain_text(told, timeout=PATIENCE_MS)
        expect(rows).to_have_count(left, timeout=PATIENCE_MS)
    expect(page.locator("main .empty")).to_be_visible()
    picture(page, tmp_path, "cleared")
    hands.go_to(page.get_by_role("link", name=re.compile(r"^Resolved [1-9]")))
    hands.press("Enter")
    expect(rows).to_have_count(16, timeout=PATIENCE_MS)
    hands.press("j", "o")
    hands.go_to(page.get_by_role("link", name="Post-mortem", exact=True))
    picture(page, tmp_path, "escalation")
    hands.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^Post-mortem of ESC-"))
    picture(page, tmp_path, "post-mortem")
    hands.go_to(page.get_by_role("link", name="Markdown", exact=True))
    with page.expect_download() as started:
        hands.press("Enter")
    started.value.save_as(tmp_path / "post-mortem.md")
    said = (tmp_path / "post-mortem.md").read_text()
    assert said.startswith("# Post-mortem of ESC-")
    assert ANSWER in said
    assert hands.took_s + time.monotonic() - began < 180, (hands.took_s, time.monotonic() - began)


# -- 4: live, and nothing is taken out of anybody's hands -------------------------------------------------------------
RUSH_S = 300


def rush(stage: Stage) -> None:
    """The facts of five minutes with twenty in each second, as fast as they are taken: failures, questions, moves, and
    agents that were not there before. Who holds out through this holds out when it comes slower.
    """
    states = cycle((State.OPEN, State.HALF_OPEN, State.CLOSED))
    for number in range(4 * RUSH_S):
        name = f"rush-{number % 7}"
        stage.tell(
            moved(next(states), before=State.CLOSED, breaker=name, trigger=Trigger.FAILURE_RATE),
            failed(Category.TIMEOUT, name, fingerprint=name),
            failed(Category.OVERLOADED, name, provider=f"cloud-{number % 5}", model="large", status_code=529),
            Escalated(operation=name, queue=f"rush-{number % 3}", reason="policy_denied", message=f"May {number}?"),
            heartbeat(),
            instance=f"rush-{number % 9}",
            run=f"rush-{number}",
        )


def test_scenario_4_what_somebody_is_at_stays_in_hand_through_five_minutes_of_a_rush(
    visit: Visit, stage: Stage, queue: str, tmp_path: Path
) -> None:
    page = visit("/escalations")
    rows = page.locator("table[data-queue] tbody tr")
    expect(rows.filter(has_text=queue)).to_have_count(QUESTIONS, timeout=PATIENCE_MS)
    before = rows.evaluate_all(KEYS)
    for number in (0, 2):
        rows.nth(number).get_by_role("checkbox").check(force=True)
    page.get_by_role("button", name="operator, operator: account").press("Enter")
    point_at(page, rows.nth(4))
    rush(stage)
    expect(page.locator("[data-pending-pill]")).to_contain_text("new", timeout=PATIENCE_MS)
    assert rows.evaluate_all(KEYS) == before
    assert len(page.evaluate("window.seen")) == 1, page.evaluate("window.seen")
    assert rows.locator("input:checked").evaluate_all(KEYS_AROUND) == [
        before[0],
        before[2],
    ]
    expect(page.get_by_text("Shortcuts are on")).to_be_visible()
    picture(page, tmp_path, "rush")


# -- 5: a link that is opened the next day ----------------------------------------------------------------------------
DAY_S = 86_400.0
READ = {"failures": "/failures", "runs": "/runs", "timelines": "/timelines?view=table"}
ROWS = """() => [...document.querySelectorAll("main tbody tr")].map((row) => {
  const copy = row.cloneNode(true);
  // "26h ago" is older a day later, and who only reads has nothing to choose
  for (const one of copy.querySelectorAll("time[data-tick], label.tick, .row-acts")) one.remove();
  return copy.textContent.replace(/\\s+/g, " ").trim();
})"""


@pytest.mark.parametrize("name", READ)
def test_scenario_5_a_shared_link_shows_the_same_rows_the_next_day(
    name: str, visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    """What happened yesterday is read by the link that was copied then; since then the same has happened again."""
    cause = f"shared{next(fresh)}"
    story = [failed(Category.TIMEOUT, cause, fingerprint=cause), moved(State.OPEN, breaker=cause)]
    stage.tell(RunStarted(name="yesterday's"), ago_s=DAY_S + 900, run=cause)
    stage.tell(*story, ago_s=DAY_S + 800, run=cause)
    stage.tell(moved(State.CLOSED, before=State.OPEN, breaker=cause), ago_s=DAY_S + 700)
    stage.tell(RunFinished(status=RunStatus.FAILED, duration_s=300.0), ago_s=DAY_S + 600, run=cause)
    end = datetime.now(UTC) - timedelta(seconds=DAY_S)
    page = visit(READ[name])
    asked = f"from={end - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}"
    page.goto(f"{page.url}{'&' if '?' in page.url else '?'}{asked}")
    link = page.get_by_role("button", name="Copy link").get_attribute("data-copy-link")
    assert link is not None
    named = "" if name == "timelines" else cause  # nobody lived then to say how breakers stood
    expect(page.locator("main tbody tr").filter(has_text=named, visible=True).first).to_be_visible()
    before = page.evaluate(ROWS)
    picture(page, tmp_path, f"{name}-yesterday")
    again = f"{cause}-again"  # another run: the row of a run says all that became of it, and this one has ended
    stage.tell(*story, failed(Category.BUG, cause, fingerprint=again), run=again)
    now = visit(READ[name].partition("?")[0] + "?range=15m")
    expect(now.locator("main")).to_contain_text(cause, timeout=PATIENCE_MS)
    other = visit(link if name != "timelines" else f"{link}&view=table", role="viewer")
    expect(other.locator("main tbody tr").filter(has_text=named, visible=True).first).to_be_visible()
    picture(other, tmp_path, f"{name}-today")
    assert other.evaluate(ROWS) == before
    stage.tell(moved(State.CLOSED, before=State.OPEN, breaker=cause))


# -- 6: the stream is cut ---------------------------------------------------------------------------------------------
PARTS = {
    "a figure": ("/timelines?range=15m", "figure", "**/timelines/figure*"),
    "the page itself": ("/agents", "agents", "**/agents"),
}


def test_scenario_6_a_stream_that_is_cut_is_said_within_30_s_and_nothing_old_looks_new(
    browser: Browser, tmp_path: Path
) -> None:
    with Server(tmp_path / "data") as server, browser.new_context() as context:
        stage = Stage(server, tmp_path / "data").prepare()
        page = stage.sign_in(context)
        page.goto(f"{server.url}/breakers")
        expect(page.locator("button.live")).to_have_attribute("data-live", "on")
        server.end()
        banner = page.locator("#live-banner")
        expect(banner).to_contain_text(CLOCK, timeout=30_000)
        expect(page.locator("button.live")).to_have_attribute("data-live", "stale")
        for part in page.locator("main [data-refresh-url]").all():
            expect(part.locator("> .stale time")).to_have_text(CLOCK)
        picture(page, tmp_path, "cut")


@pytest.mark.parametrize("name", PARTS)
def test_scenario_6_a_part_that_cannot_be_had_says_so_while_the_others_go_on(
    name: str, visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    path, part, addresses = PARTS[name]
    page = visit(path)
    light = page.locator("button.live")
    expect(light).to_have_attribute("data-live", "on")
    if name == "a figure":
        page.locator("#figure").hover()
        expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    page.route(addresses, lambda route: route.fulfill(status=500, body="It is broken."))
    stage.tell(failed(Category.TIMEOUT, f"lost-{part}"))
    lost = page.locator(f"#{part}[data-stale], figure[data-stale]:has(#{part})")
    expect(lost.locator("> .stale time")).to_have_text(CLOCK, timeout=PATIENCE_MS)
    expect(light).to_have_attribute("data-live", "partly")
    expect(page.locator("[data-stale]")).to_have_count(1)
    expect(page.locator("#live-banner")).to_be_hidden()
    picture(page, tmp_path, f"lost-{part}")
    page.unroute(addresses)
    stage.tell(failed(Category.TIMEOUT, f"found-{part}"))
    expect(page.locator("[data-stale], .stale")).to_have_count(0, timeout=PATIENCE_MS)
    expect(light).to_have_attribute("data-live", "on")
