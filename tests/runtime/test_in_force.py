"""What a process says of the settings it really goes by: after code, policy, override and its own ceilings."""

from __future__ import annotations

from recovery_ops.rules.desired_state import Desired, Shed
from recovery_ops.rules.enums import Importance
from recovery_ops.rules.events import SettingsInForce
from recovery_ops.rules.policy.effective_settings import MOST_CHARS, MOST_SETTINGS, of_process
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import Fallback, Limits, ModelChain
from recovery_ops.runtime.background_thread import SETTINGS_AFTER_S
from recovery_ops.runtime.config.effective import AGAIN_S, MOST_OPERATIONS
from recovery_ops.runtime.testing import Lab
from tests.support.recovery import tripped


def told(lab: Lab, after_s: float = SETTINGS_AFTER_S) -> dict[str, SettingsInForce]:
    """What one more round tells, by operation."""
    before = len(lab.events_of(SettingsInForce))
    lab.clock.push(after_s)
    lab.recovery.housekeep()
    return {fact.operation: fact for fact in lab.events_of(SettingsInForce)[before:]}


def ruled(revision: int = 1, **settings: object) -> Desired:
    rule = {"id": "less", "scope": {"operation": "search"}, "settings": settings}
    return Desired(revision=revision, policy=parse_policy({"rules": [rule]}, version="4"))


def test_each_operation_and_the_process_are_told_once() -> None:
    lab = Lab()
    lab.recovery.guard("search", max_retries=5)(lab.script("ok"))
    lab.recovery.guard("read")(lab.script("ok"))
    first = told(lab)
    assert set(first) == {"", "search", "read"}
    search = first["search"]
    assert (search.settings["max_retries"], search.settings["failure_rate_threshold"]) == (5, 0.5)
    assert search.in_code["max_retries"] == 5
    assert first["read"].settings["max_retries"] == 3
    assert (first[""].count, first[""].settings["guards.turns"]) == (2, 20)
    assert told(lab) == {}


def test_a_call_tells_nothing() -> None:
    lab = Lab()
    guarded = lab.recovery.guard("search")(lab.script("ok"))
    told(lab)
    guarded()
    assert told(lab) == {}


def test_what_a_policy_changes_is_told_of_that_operation_alone() -> None:
    lab = Lab()
    lab.recovery.guard("search", max_retries=5)(lab.script("ok"))
    lab.recovery.guard("read")(lab.script("ok"))
    told(lab)
    lab.recovery.apply(ruled(max_retries=1))
    [again] = told(lab).values()
    assert (again.operation, again.revision, again.settings["max_retries"]) == ("search", 1, 1)
    lab.recovery.apply(ruled(revision=2, max_retries=1))
    assert told(lab) == {}, "a revision that changes nothing here is told by the heartbeat"


def test_a_ceiling_shows_what_it_holds_back() -> None:
    lab = Lab(limits=Limits(max_retries=2, max_override_s=900.0))
    lab.recovery.guard("search")(lab.script("ok"))
    lab.recovery.apply(ruled(max_retries=9))
    found = told(lab)
    assert found["search"].settings["max_retries"] == 2
    assert found["search"].held == {"max_retries": 9, "max_retries_background": 3}
    assert found[""].in_code == {"allow_disable": True, "max_retries": 2, "max_override_s": 900.0}


def test_ceiling_shows_for_operation_guarded_later() -> None:
    lab = Lab(limits=Limits(max_retries=2))
    lab.recovery.apply(ruled(max_retries=9))
    lab.recovery.guard("search")(lab.script("ok"))
    assert told(lab)["search"].held == {"max_retries": 9, "max_retries_background": 3}


def test_an_override_is_told_when_it_begins_and_when_it_ends() -> None:
    lab = Lab()
    lab.recovery.guard("search")(lab.script("ok"))
    assert told(lab)["search"].settings["override"] == "none"
    lab.recovery.apply(tripped(lab, Scope(operation="search"), lasts_s=60.0, in_s=10.0))
    assert "search" not in told(lab)
    begun = told(lab, 10.0)["search"]
    assert (begun.settings["override"], begun.settings["override_id"]) == ("forced_open", "ov-1")
    assert told(lab, 60.0)["search"].settings["override"] == "none"


def test_one_that_its_ceiling_does_not_allow_is_told_as_held() -> None:
    lab = Lab(limits=Limits(max_override_s=5.0))
    lab.recovery.guard("search")(lab.script("ok"))
    lab.recovery.apply(tripped(lab, Scope(operation="search"), lasts_s=60.0))
    found = told(lab, 6.0)["search"]
    assert (found.settings["override"], found.held) == ("none", {"override": "forced_open"})


def test_shed_load_is_of_the_process() -> None:
    lab = Lab()
    told(lab)
    now = lab.clock.wall()
    shed = Shed(id="s-1", least=Importance.CRITICAL, reason="r", by="b", starts_at=now, expires_at=now + 60, revision=1)
    lab.recovery.apply(Desired(revision=1, shed=shed))
    assert told(lab)[""].settings["shed"] == "below critical"
    assert told(lab, 60.0)[""].settings["shed"] == "none"


def test_fallbacks_are_those_that_would_be_asked() -> None:
    lab = Lab()
    ways = [Fallback(lab.script("a"), name="cache"), Fallback(lab.script("b"), name="static")]
    lab.recovery.guard("search", fallback=ways)(lab.script("ok"))
    assert told(lab)["search"].settings["fallbacks"] == "cache, static"
    rule = {"id": "one", "scope": {"operation": "search"}, "fallbacks": ["static", "nobody"]}
    lab.recovery.apply(Desired(revision=1, policy=parse_policy({"rules": [rule]})))
    assert told(lab)["search"].settings["fallbacks"] == "static"


def test_all_is_told_again_after_an_hour() -> None:
    lab = Lab()
    lab.recovery.guard("search")(lab.script("ok"))
    told(lab)
    assert set(told(lab, AGAIN_S)) == {"", "search"}


def test_an_agent_that_makes_operations_up_is_told_of_in_part() -> None:
    lab = Lab()
    for number in range(MOST_OPERATIONS + 5):
        lab.recovery.operations.named(f"made-up-{number}")
    found = told(lab)
    assert len(found) == MOST_OPERATIONS + 1
    assert found[""].count == MOST_OPERATIONS + 5


def test_a_table_is_bounded_and_holds_no_secret() -> None:
    sources = {f"source-{number}": "critical" for number in range(MOST_SETTINGS * 2)}
    names = [f"main-{number}" for number in range(100)]
    key = "sk-live-0123456789abcdef"
    policy = parse_policy({"importance": {key: "critical"} | sources, "foreground_sources": names})
    found = of_process(policy)
    assert len(found) == MOST_SETTINGS + 1
    assert len(str(found["foreground_sources"])) <= MOST_CHARS
    assert key not in repr(found)
    other = of_process(parse_policy({"importance": {key: "critical"} | sources | {"source-399": "sheddable"}}))
    assert found["(the rest)"] != other["(the rest)"], "what is not told one by one is still told apart"


def test_models_are_those_that_would_be_asked_after_the_first() -> None:
    lab = Lab()
    lab.recovery.guard("search")(lab.script("ok"))
    lab.recovery.guard("model", chain=ModelChain("large", "small", "tiny"))(lab.script("ok"))
    first = told(lab)
    assert first["model"].settings["models"] == "small, tiny"
    assert "models" not in first["search"].settings
    rules = [{"id": one, "scope": {"operation": one}, "models": ["tiny", "unheard-of"]} for one in ("model", "search")]
    lab.recovery.apply(Desired(revision=1, policy=parse_policy({"rules": rules})))
    again = told(lab)
    assert again["model"].settings["models"] == "tiny"
    assert again["search"].settings["models"] == "none"
