"""The main journey from a failure to a click."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Page, expect

from tests.support.agents import Console, Provider, Store
from tests.support.processes import eventually

PATIENCE_MS = 60_000


AGENTS = ("research-1", "research-2")


@dataclass
class Stage:
    """Everything the flow plays on."""

    server: Console
    provider: Provider
    store: Store
    operator: tuple[str, str]

    def rejected(self) -> int:
        """Calls that the agents have refused so far."""
        query = "SELECT count(*) FROM events_fact WHERE event = 'breaker_rejected' AND breaker = 'search_web'"
        return self.store.count(query)

    def attempts_of_newest_run(self) -> int:
        """How many times the newest finished run called the provider's search."""
        return self.store.count(
            """SELECT count(*) FROM events_fact
               WHERE event = 'failure_classified' AND operation = 'search_web' AND run =
               (SELECT run FROM events_fact WHERE event = 'run_finished' ORDER BY id DESC LIMIT 1)"""
        )


def sign_in(page: Page, stage: Stage) -> None:
    page.goto(stage.server.url)
    page.get_by_label("Name").fill(stage.operator[0])
    page.get_by_label("Password").fill(stage.operator[1])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible(timeout=PATIENCE_MS)


def edit_policy(page: Page, stage: Stage, reason: str, **fields: str) -> None:
    page.goto(f"{stage.server.url}/policies/operations/search_web")
    page.get_by_text("Other settings").click()
    for name, value in fields.items():
        page.locator(f"[name={name}]").fill(value)
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Save and release").click()
    expect(page.get_by_text("2/2 applied").first).to_be_visible(timeout=PATIENCE_MS)


def the_failure_appears_live(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.server.url}/timelines?range=15m")
    page.locator("#figure").hover()  # plotly comes when somebody goes to the figure
    expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("search_web (open 2/2)")).to_have_count(0)
    stage.provider.make("search", _500=1.0)
    # No reload: the page hears of it.
    expect(page.get_by_text("search_web (open 2/2)").first).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{stage.server.url}/breakers/search_web")
    expect(page.get_by_text("server_error").first).to_be_visible()


def the_trip_stops_the_calls(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.server.url}/breakers/search_web/trip")
    page.get_by_label("Reason").fill("Hosted search answers 500 on every call.")
    page.get_by_role("button", name="Trip breaker").click()
    expect(page.get_by_text("2/2 applied").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", level=1)).to_contain_text("forced open", timeout=PATIENCE_MS)
    for instance in AGENTS:
        expect(page.get_by_role("row").filter(has_text=instance)).to_contain_text("forced open")
    calls, rejected = stage.provider.calls("search"), stage.rejected()
    eventually(lambda: stage.rejected() >= rejected + 6, what="further refused calls")
    assert stage.provider.calls("search") == calls, "a tripped operation must not be called"


def the_reset_lets_them_flow(page: Page, stage: Stage) -> None:
    stage.provider.make("search")
    calls = stage.provider.calls("search")
    page.goto(f"{stage.server.url}/breakers/search_web/reset")
    page.get_by_label("Reason").fill("The provider says that it has recovered.")
    page.get_by_role("button", name="Reset breaker").click()
    # Three instances are more than one: each step waits until those before it stay closed.
    expect(page.locator("#ramp")).to_contain_text("done.", timeout=10 * PATIENCE_MS)
    eventually(lambda: stage.provider.calls("search") >= calls + 4, what="calls after the reset")


def the_policy_changes_the_attempts(page: Page, stage: Stage) -> None:
    quick = {"base_delay_s": "0.01", "consecutive_failures": "0", "failure_rate_threshold": "0"}
    edit_policy(page, stage, "Two retries while the index is rebuilt.", max_retries="2", **quick)
    stage.provider.make("search", _500=1.0)
    eventually(lambda: stage.attempts_of_newest_run() == 3, what="three attempts in a run")
    edit_policy(page, stage, "No retries: the provider asks for less.", max_retries="0")
    eventually(lambda: stage.attempts_of_newest_run() == 1, what="one attempt in a run")
