"""Replays on pages and by the API: asked for, watched, called off, read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

import pytest
from django.utils import timezone

from events import keys
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.replay import job
from recovery_ops.control.replay.agent_loop import DECIDED_GUARDS, UNDECIDED_GUARDS
from recovery_ops.control.replay.engine import NO_COST
from recovery_ops.control.replay.measures import COST
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.replay.views.replays import DOUBTS, UNDECIDED, sentence_of
from recovery_ops.rules.roles import Role
from recovery_ops.rules.run_limits import GUARD_SETTINGS
from tests.support.actions import asked
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in, text_of
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, call, policy, spent
from tests.support.sentences import left_out

pytestmark = pytest.mark.django_db


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Studio:
    """A call that was answered at the third attempt, a minute ago by the clock of the views."""
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("search_web", [503, 503, "ok"]))
    studio.store()
    moment = datetime.fromtimestamp(studio.lab.clock.wall(), UTC) + timedelta(minutes=1)
    monkeypatch.setattr(timezone, "now", lambda: moment)
    return studio


def proposed() -> PolicyProposal:
    return proposals_services.propose(**asked(title="less patience", document=policy(max_retries=1))).object


def done() -> Replay:
    found: list[Replay] = []
    job.start_next(now=timezone.now(), start=found.append)
    job.run(found[0])
    return Replay.objects.get(pk=found[0].pk)


@pytest.mark.usefixtures("later")
def test_from_the_proposal_to_the_result() -> None:
    client, made = signed_in(Role.EDITOR), proposed()
    answer = client.post(f"/policies/proposals/{made.number}/replay", {"window": "3600"})
    assert answer.headers["Location"] == "/policies/replays/1"
    waiting = client.get("/policies/replays/1")
    assert (waiting.headers["Refresh"], waiting.context["replay"].state) == ("2", "waiting")
    done()
    page = client.get("/policies/replays/1")
    said, told = text_of(page), page.context
    assert "Refresh" not in page.headers
    result = told["result"]
    assert (result["calls"], result["affected_calls"]) == (1, 1)
    assert left_out(told["sentence"], "1", "−1") == []
    attempts = {row.name: row for row in told["rows"]}["attempts"]
    assert (attempts.recorded, attempts.old, attempts.new, attempts.change) == (3, 3, 2, "−1")
    assert "3 3 2 −1" in said
    assert told["endings"] == [{"old": "answered", "new": "failed", "calls": 1}]
    assert "answered failed 1" in said
    assert (result["told_endings"], result["matched_endings"], left_out(told["trust"], "100", "1")) == (1, 1, [])
    [example] = told["examples"]
    assert (example["old"]["ending"], example["new"]["ending"]) == ("answered", "failed")
    assert len(example["old"]["steps"]) > len(example["new"]["steps"])
    assert "examples-title" in Shown(page).ids
    assert "Replay 1" in text_of(client.get(f"/policies/proposals/{made.number}"))


@pytest.mark.usefixtures("later")
def test_a_replay_of_an_older_edition_says_so() -> None:
    client, made = signed_in(Role.EDITOR), proposed()
    client.post(f"/policies/proposals/{made.number}/replay", {"window": "3600"})
    done()
    proposals_services.revise(**asked(number=made.number, document=policy(max_retries=2)))
    page = client.get("/policies/replays/1")
    assert (page.context["replay"].edition, page.context["is_outdated"]) == (1, True)
    assert Shown(page).values("outdated") == ["2"]


@pytest.mark.parametrize(("unknown", "shows_outcomes"), [(510, False), (20, True), (0, True)])
def test_headline_names_unknown_outcomes_first(unknown: int, shows_outcomes: bool) -> None:
    measures = dict.fromkeys(("attempts", "retries", "waiting_s", "refused", "openings", "fallbacks"), 100.0)
    rest = dict.fromkeys(("withdrawn", "escalations", "failed", "stopped", "tokens", COST), 100.0)
    old = measures | rest
    endings = [{"old": "fallback", "new": "unknown", "calls": unknown}] if unknown else []
    endings.append({"old": "fallback", "new": "answered", "calls": 549 - unknown})
    result = {
        "calls": 600,
        "affected_calls": 549,
        "endings": endings,
        "measures": {"old": old, "new": old | {"attempts": 123.0, "fallbacks": 31.0}, "recorded": old},
    }
    said = sentence_of(Replay(state=Replay.DONE, result=result))
    assert said.startswith(str(unknown)) is (unknown > 0)
    assert "+23 % attempts" in said
    assert ("−69 %" in said) is shows_outcomes


@pytest.mark.usefixtures("later")
def test_a_replay_that_found_nothing_says_so() -> None:
    client, made = signed_in(Role.EDITOR), proposed()
    client.post(f"/policies/proposals/{made.number}/replay", {"window": "3600", "operation": "other"})
    done()
    told = client.get("/policies/replays/1").context
    assert (told["replay"].state, told["result"]["calls"], told["endings"]) == ("done", 0, [])


@pytest.mark.usefixtures("later")
def test_it_is_called_off_by_a_button_that_viewers_do_not_have() -> None:
    client, made = signed_in(Role.EDITOR), proposed()
    client.post(f"/policies/proposals/{made.number}/replay", {"window": "3600"})
    viewer = signed_in(Role.VIEWER, "vera")
    assert ">Cancel<" not in viewer.get("/policies/replays/1").content.decode()
    assert viewer.post("/policies/replays/1").status_code == 403
    assert viewer.post(f"/policies/proposals/{made.number}/replay", {"window": "3600"}).status_code == 403
    client.post("/policies/replays/1")
    assert Replay.objects.get().state == "cancelled"
    assert client.get("/policies/replays/2").status_code == 404


def test_a_program_asks_waits_and_reads(later: Studio) -> None:
    keys.forget_keys()
    program = Program()
    start = datetime.fromtimestamp(later.began_s, UTC) - timedelta(seconds=1)
    window: dict[str, Any] = {"start": start.isoformat(), "end": timezone.now().isoformat()}
    body = {"reason": REASON, "document": policy(max_retries=1)} | window
    status, asked_for = program.post("policies/replays", body)
    assert (status, asked_for["replay"]["state"]) == (202, "waiting")
    assert program.get("policies/replays/1")[1]["result"] is None
    done()
    _, found = program.get("policies/replays/1")
    assert found["replay"]["state"] == "done"
    assert found["result"]["endings"] == [{"old": "answered", "new": "failed", "calls": 1}]
    assert [one["number"] for one in program.get("policies/replays")[1]["replays"]] == [1]
    assert program.post("policies/replays", body | {"end": "yesterday"})[0] == 400
    to_come = (timezone.now() + timedelta(hours=1)).isoformat()
    status, refused = program.post("policies/replays", body | {"end": to_come})
    assert (status, list(refused["fields"])) == (400, ["end"])
    status, refused = program.post("policies/replays", body | {"service": "nobody"})
    assert (status, list(refused["fields"]), "nobody" in refused["detail"]) == (404, ["service"], True)
    assert program.post("policies/replays", {"reason": REASON, "proposal": 9} | window)[0] == 404
    assert program.get("policies/replays/7")[0] == 404


@pytest.mark.parametrize("cost_usd", [0.06, None])
def test_the_cost_is_a_row_or_a_doubt_and_a_number_or_null(
    cost_usd: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    spent(studio, cost_usd=cost_usd)
    studio.store()
    moment = datetime.fromtimestamp(studio.lab.clock.wall(), UTC) + timedelta(minutes=1)
    monkeypatch.setattr(timezone, "now", lambda: moment)
    made = proposals_services.propose(**asked(title="none", document=policy("model:primary", max_retries=0))).object
    client = signed_in(Role.EDITOR)
    client.post(f"/policies/proposals/{made.number}/replay", {"window": "3600"})
    done()
    page = client.get("/policies/replays/1")
    rows = [(row.recorded, row.told_old, row.told_new, row.change) for row in page.context["rows"] if row.name == COST]
    assert rows == ([(None, "0.0600", "0.0200", "−67 %")] if cost_usd else [])
    assert ("– 0.0600 0.0200 −67 %" in text_of(page)) is (cost_usd is not None)
    one, _, why = DOUBTS[NO_COST]
    assert ((1, one, why) in page.context["doubts"]) is (cost_usd is None)
    keys.forget_keys()
    _, found = Program().get("policies/replays/1")
    new = found["result"]["measures"]["new"]["cost_usd"]
    assert new == (0.02 if cost_usd else None)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    ("guards", "old", "new"),
    [
        ({"input_share": 0.5}, "0.75", "0.5"),
        ({"outside_chars": 100}, "300", "100"),
        ({"errors_before_abort": 4}, "10", "4"),
    ],
)
def test_a_guard_that_no_fact_tells_of_stands_among_what_cannot_be_known(
    guards: dict[str, Any], old: str, new: str
) -> None:
    document = {**BUILT_IN_DOCUMENT, "guards": {**BUILT_IN_DOCUMENT["guards"], **guards}}
    made = proposals_services.propose(**asked(title="other guards", document=document)).object
    client = signed_in(Role.EDITOR)
    client.post(f"/policies/proposals/{made.number}/replay", {"window": "3600"})
    found = done()
    assert found.result is not None
    assert list(found.result["undecided_guards"]) == list(guards)
    page = client.get("/policies/replays/1")
    [(words, _)] = page.context["undecided"]
    [name] = guards
    assert words.startswith(UNDECIDED[name][0])
    assert left_out(words, old, new) == []
    html = page.content.decode()
    assert html.index('id="doubts-title"') < html.index(escape(words)) < html.index('id="result-title"')


@pytest.mark.usefixtures("later")
def test_guards_that_stay_as_they_are_are_no_doubt() -> None:
    client, made = signed_in(Role.EDITOR), proposed()
    client.post(f"/policies/proposals/{made.number}/replay", {"window": "3600"})
    found = done()
    assert found.result is not None
    assert found.result["undecided_guards"] == {}
    assert client.get("/policies/replays/1").context["undecided"] == []


def test_every_guard_is_decided_again_or_has_words_for_why_not() -> None:
    assert {*DECIDED_GUARDS, *UNDECIDED} == set(GUARD_SETTINGS)
    assert set(UNDECIDED) == set(UNDECIDED_GUARDS)
