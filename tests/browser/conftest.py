"""What tests in a browser share: one running console per module, and people who are signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from tests.browser.stage import Stage
from tests.support.agents import manage_each
from tests.support.processes import Server
from tests.support.stories import moved


@pytest.fixture(scope="module")
def stage(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A console of this module's own, in which a small storm was reported. Without a browser there is none.

    Who signs in stays fresh for as long as the slowest machine takes for a module.
    """
    data = tmp_path_factory.mktemp("console") / "data"
    env = {"RECOVERY_OPS_FRESH_SIGN_IN_MINUTES": "600"}
    with Server(data, env=env) as server, Stage(server, data).prepare().beating() as stage:
        yield stage


@pytest.fixture
def visit(browser: Browser, stage: Stage) -> Iterator[Callable[..., Page]]:
    """Sign somebody in (`role`) and open an address; the rest goes to the browser's context."""
    contexts = []

    def open_page(path: str = "/", *, role: str = "operator", **context: Any) -> Page:
        contexts.append(browser.new_context(**context))
        page = stage.sign_in(contexts[-1], role)
        page.goto(stage.server.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def office(browser: Browser, stage: Stage) -> Iterator[Page]:
    """One page for an administrator's screens: a policy was proposed, replayed and rolled out, a reset of two goes on,
    load is shed, a run is golden, people are told of things, and a trip of everything waits for a second person.
    """
    chief, key = "account create chief --role admin --generate", "key create --name eva --scope read,act,settings"
    stage.passwords["chief"], key = manage_each(stage.data, chief, key)
    with browser.new_context(reduced_motion="reduce") as context:
        page = stage.sign_in(context, "chief")

        def post(path: str, **body: object) -> None:
            answer = page.request.post(
                f"{stage.server.url}/api/v1/{path}",
                data=body | {"reason": "something to look at"},
                headers={"Authorization": f"Bearer {key}"},
            )
            assert answer.ok, answer.text()

        settings = {"max_retries": 2}
        rule = {"id": "search_web", "scope": {"operation": "search_web"}, "settings": settings}
        post("policies/proposals", title="less patience", document={**document_of(BUILT_IN), "rules": [rule]})
        end = datetime.now(UTC)
        post("policies/replays", proposal=1, start=(end - timedelta(hours=1)).isoformat(), end=end.isoformat())
        post("feedback", operation="search_web", want="retry_less")
        post("policies/proposals/1/roll-out", share=0.5)
        stage.tell(moved(State.OPEN, breaker="search_web"), instance="r-1")
        post("breakers/search_web/reset")
        post("shed", confirm="dev")
        post("policies/golden", run="run-1", name="diligence", must="It ends without asking anybody.")
        post("annotations", note="maintenance of the ledger", goes_on=True)
        post("notifications/channels", name="day", kind="slack", address="https://hooks.example.org/y")
        post("notifications/channels", name="post", kind="email", address="ops@example.org")
        post("notifications/channels/2/test")  # no mail server is set up: it fails for good
        post("notifications/rules", name="day", channel=1, triggers=["capacity"])
        post("notifications/chains", name="day", steps=[{"after_s": 0, "channel": 1}])
        page.goto(f"{stage.server.url}/settings/environment")
        page.locator("#id_is_second_needed").check()
        page.locator("main [name=reason]").fill("something to look at")
        with page.expect_navigation():
            page.get_by_role("button", name="Save", exact=True).click()
        post("breakers/*/trip", confirm="dev")
        yield page
