"""Dangerous acts in the browser: by keyboard, as a dialog and without script, seen until every instance has obeyed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from tests.browser.stage import Stage
from tests.support.stories import failed, heartbeat

REASON = "Hosted search answers 529 on nine of ten calls."

UNSENT = "Object.keys(sessionStorage).filter((name) => name.startsWith('unsent:')).length"

Visit = Callable[..., Page]


def test_a_dialog_opens_by_keyboard_with_cancel_in_hand_and_gives_the_focus_back(visit: Visit) -> None:
    page = visit("/breakers/search_web")
    trip = page.get_by_role("link", name="Trip…")
    trip.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Trip search_web in dev")
    expect(dialog.get_by_role("link", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(trip).to_be_focused()


def test_a_slip_is_said_beside_the_field_and_the_focus_goes_there(visit: Visit) -> None:
    page = visit("/breakers/search_web")
    page.get_by_role("link", name="Trip…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("short")
    dialog.get_by_role("radio", name="4 h", exact=True).check(force=True)
    dialog.get_by_role("button", name="Trip breaker").click()
    expect(dialog.locator("#reason-error")).to_be_visible()
    expect(dialog.get_by_label("Reason")).to_be_focused()
    expect(dialog.get_by_label("Reason")).to_have_value("short")
    expect(dialog.get_by_role("radio", name="4 h", exact=True)).to_be_checked()


def test_what_begins_later_ends_by_the_clock_on_which_it_was_typed(visit: Visit) -> None:
    page = visit("/breakers/search_web")
    page.evaluate("document.querySelector('[data-own-zone]').value = 'Asia/Kolkata'")
    page.get_by_role("button", name="operator, operator: account").click()
    page.get_by_role("button", name="Local times").click()
    expect(page.locator("html")).to_have_attribute("data-zone", "Asia/Kolkata")
    page.get_by_role("link", name="Trip…").click()
    dialog = page.get_by_role("dialog")
    begins = datetime.now(ZoneInfo("Asia/Kolkata")) + timedelta(days=2)
    dialog.get_by_label("Start").fill(f"{begins:%Y-%m-%dT}14:05")
    dialog.get_by_label("Start").dispatch_event("change")
    expect(dialog.locator("output[data-ends]")).to_have_text(f"{begins:%Y-%m-%d} 15:05:00 Asia/Kolkata")


@pytest.mark.default
def test_a_breaker_is_tripped_by_keyboard_and_returned_to_auto(visit: Visit) -> None:
    page = visit("/breakers/crm.update")
    page.get_by_role("link", name="Trip…").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="Cancel")).to_be_focused()
    dialog.get_by_label("Reason").focus()
    page.keyboard.type(REASON)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    act = dialog.get_by_role("button", name="Trip breaker")
    for _ in range(12):  # past the parts of the date when it begins, as many as the browser's language has
        page.keyboard.press("Tab")
        if act.evaluate("one => one === document.activeElement"):
            break
    expect(act).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status", name="Notices")).to_contain_text("crm.update")
    desired = page.get_by_role("region", name="Desired")
    expect(desired).to_contain_text("forced open")
    expect(desired).to_contain_text("in 29m")
    expect(page.get_by_role("region", name="Observed")).to_contain_text("0/3 applied, 3 pending")
    expect(page.get_by_role("region", name="Observed")).to_contain_text("r-0")
    page.get_by_role("link", name="Clear override…").first.click()
    page.get_by_role("dialog").get_by_label("Reason").fill(REASON)
    page.keyboard.press("Control+Enter")
    expect(desired).to_contain_text("no override")
    assert page.evaluate(UNSENT) == 0, "what was sent is not kept"


@pytest.mark.parametrize("address", ["/shed", "/breakers/search_web/trip"])
def test_the_end_is_counted_from_the_beginning_that_is_typed(visit: Visit, address: str) -> None:
    page = visit(address)
    page.get_by_role("radio", name="4 h", exact=True).check(force=True)
    page.get_by_label("Start").fill(f"{datetime.now(UTC) + timedelta(days=3):%Y-%m-%d}T10:00")
    page.get_by_label("Start").blur()
    expect(page.get_by_text("Ends at")).to_contain_text("14:00:00 UTC")
    page.get_by_label("Start").fill("")
    page.get_by_label("Start").blur()
    expect(page.get_by_text("Ends at")).not_to_contain_text("14:00:00 UTC")


@pytest.mark.default
def test_without_script_an_act_is_a_page(visit: Visit, stage: Stage) -> None:
    page = visit("/breakers/model:large", java_script_enabled=False)
    page.get_by_role("link", name="Observe…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Observe model:large in dev")
    page.get_by_role("radio", name="Instance").check(force=True)
    page.get_by_role("combobox", name="Instance").fill("r-1")
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Observe breaker").click()
    expect(page.get_by_role("status", name="Notices")).to_contain_text("on instance r-1")
    expect(page.get_by_role("region", name="Desired")).to_contain_text("metrics only by operator")
    page.set_viewport_size({"width": 1000, "height": 800})
    widths = (
        page.get_by_role("region", name="Desired")
        .locator("dd", has_text="metrics only by operator")
        .evaluate("said => [said.clientWidth, said.parentElement.clientWidth]")
    )
    assert widths[0] > widths[1] / 2, "a long scope leaves no place for what rests on it"


def test_the_second_person_reads_who_came_first_and_keeps_what_they_wrote(visit: Visit) -> None:
    first, second = visit("/breakers/search_web"), visit("/breakers/search_web")
    second.get_by_role("link", name="Disable…").click()
    late = second.get_by_role("dialog")
    late.get_by_label("Reason").fill("Mine is another reason altogether.")
    first.get_by_role("link", name="Trip…").click()
    first.get_by_role("dialog").get_by_label("Reason").fill(REASON)
    first.get_by_role("dialog").get_by_role("button", name="Trip breaker").click()
    expect(first.get_by_role("region", name="Desired")).to_contain_text("forced open")
    late.get_by_role("button", name="Disable breaker").click()
    expect(late.get_by_role("alert")).to_contain_text("operator tripped search_web")
    expect(late.get_by_label("Reason")).to_have_value("Mine is another reason altogether.")
    late.get_by_role("button", name="Disable breaker").click()
    expect(second.get_by_role("region", name="Desired")).to_contain_text("disabled")


def test_a_viewer_has_nothing_to_press(visit: Visit) -> None:
    page = visit("/breakers/search_web", role="viewer")
    expect(page.get_by_role("region", name="Desired")).to_be_visible()
    expect(page.get_by_role("link", name="Trip…")).to_have_count(0)
    expect(page.get_by_role("link", name="Reset…")).to_have_count(0)


def test_new_work_is_paused_in_the_list_which_says_what_the_agent_says(visit: Visit, stage: Stage) -> None:
    stage.tell(heartbeat(takes_new_work=True), instance="batch-1")
    page = visit("/agents")
    row = page.locator("[data-rows] tr", has_text="batch-1")
    page.get_by_label("Select research/batch-1").check()
    page.locator("button[formaction*='/agents/act/pause']").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_text("Until resumed", exact=True).click()
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(row.locator("[data-heed]")).to_have_count(1)
    expect(row).to_contain_text("running")  # as it said last: nobody paints it drained because somebody wants it to be
    stage.tell(heartbeat("draining", takes_new_work=False, runs_in_flight=2), instance="batch-1")
    expect(row).to_contain_text("2 runs")
    stage.tell(heartbeat("drained", takes_new_work=False), instance="batch-1")
    expect(row).to_contain_text("drained")
    page.get_by_label("Select research/batch-1").check()
    page.get_by_role("button", name="Resume…").click()
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_role("button", name="Resume", exact=True).click()
    expect(row.locator("[data-heed]")).to_have_count(1)
    stage.tell(heartbeat(takes_new_work=True), instance="batch-1")
    expect(row.locator("[data-heed]")).to_have_count(0)


def test_a_run_that_failed_is_asked_to_begin_again_and_the_page_says_when_it_has(visit: Visit, stage: Stage) -> None:
    _fail_once(stage)
    page = visit("/runs/run-once-more")
    page.get_by_role("link", name="Retry…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="Cancel")).to_be_focused()
    expect(dialog.get_by_label("Instance")).to_have_value("batch-2")
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_label("Changed input").fill('{"limit": 5}')
    dialog.get_by_role("button", name="Retry").click()
    asked = page.get_by_role("region", name="Retry requested")
    expect(asked).to_have_attribute("data-retry", "unheard")
    expect(asked.get_by_role("link", name="Cancel retry…")).to_be_visible()
    revision = asked.get_by_role("heading").locator("xpath=..").inner_text().rpartition("revision ")[2].split()[0]
    stage.obey("batch-2", int(revision))
    expect(asked).to_have_attribute("data-retry", "heard")
    stage.tell(RunStarted(name="due diligence"), instance="batch-2", run="run-once-more")
    expect(asked).to_have_attribute("data-retry", "begun")
    expect(asked.get_by_role("link", name="Cancel retry…")).to_have_count(0)


def _fail_once(stage: Stage) -> None:
    story = {60: RunStarted(name="due diligence"), 50: failed(Category.OVERLOADED)}
    for ago_s, fact in (story | {20: RunFinished(status=RunStatus.FAILED, duration_s=40.0)}).items():
        stage.tell(fact, instance="batch-2", ago_s=ago_s, run="run-once-more")
    stage.tell(heartbeat(takes_retries=True), instance="batch-2")


def test_typed_text_comes_back_until_it_is_sent(visit: Visit) -> None:
    page = visit("/breakers/search_web")
    page.get_by_role("link", name="Trip…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_role("radio", name="4 h", exact=True).check(force=True)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.reload()
    page.get_by_role("link", name="Trip…").click()
    expect(dialog.get_by_label("Reason")).to_have_value(REASON)
    expect(dialog.get_by_role("radio", name="4 h", exact=True)).to_be_checked()
    page.context.clear_cookies()
    dialog.get_by_role("button", name="Trip breaker").click()
    expect(page.get_by_label("Password", exact=True)).to_be_visible()
    assert page.evaluate(UNSENT) == 1, "it is there after the sign-in"


def test_typed_text_comes_back_for_its_own_object_alone(visit: Visit) -> None:
    """Escalations share an address; the number of each is in a hidden field."""
    page = visit("/breakers/search_web/trip")
    page.evaluate(
        """() => document.querySelector("form.act").insertAdjacentHTML(
          "beforeend", '<input type="hidden" name="number" value="999999">')"""
    )
    page.get_by_label("Reason").fill(REASON)
    page.reload()
    expect(page.get_by_label("Reason")).to_have_value("")


def test_typed_confirmation_does_not_come_back(visit: Visit) -> None:
    page = visit("/breakers/*/trip")
    page.get_by_label("Reason").fill(REASON)
    page.locator("#confirm").fill("all")
    page.reload()
    expect(page.get_by_label("Reason")).to_have_value(REASON)
    expect(page.locator("#confirm")).to_have_value("")


def test_custom_end_has_a_field_and_no_other_end(visit: Visit) -> None:
    page = visit("/breakers/search_web/trip")
    end, shown = page.get_by_label("End UTC"), page.locator("output[data-ends]")
    expect(end).to_be_hidden()
    expect(shown).to_be_visible()
    page.get_by_role("radio", name="Custom", exact=True).check(force=True)
    expect(end).to_be_visible()
    expect(shown).to_be_hidden()
    end.fill("2040-01-31T22:15")
    expect(shown).to_contain_text("22:15")


def test_trip_for_ten_minutes_and_undo_take_five_clicks(visit: Visit) -> None:
    page = visit("/breakers/model:large")  # other tests leave overrides of the other two
    page.get_by_role("link", name="Trip…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="10 m", exact=True).check(force=True)
    dialog.get_by_label("Reason").fill(REASON)
    dialog.get_by_role("button", name="Trip breaker").click()
    expect(page.get_by_role("link", name="Trip…")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("link", name="Trip…")).to_be_visible()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
