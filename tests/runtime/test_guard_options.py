"""Options of a guard: real keywords, checked values, names, one declaration for each operation, and methods."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery_ops.rules.policy.model import Settings
from recovery_ops.runtime import (
    ConfigurationError,
    Fallback,
    ModelChain,
    Outcome,
    Recovery,
    RecoveryExhausted,
    attempt,
    build_tool,
)
from recovery_ops.runtime.guards.argument_checks import check_source
from recovery_ops.runtime.guards.options import AllGuardOptions, Options
from recovery_ops.runtime.testing import Lab
from tests.support.examples import examples


@pytest.fixture
def lab() -> Lab:
    return Lab()


def search(query: str = "") -> str:
    return f"found {query}"


class TestKeywords:
    def test_typed_options_are_the_parameters(self) -> None:
        parameters = inspect.signature(Recovery.guard).parameters
        assert set(parameters) == {*AllGuardOptions.__annotations__, "self", "name"}
        assert all(one.kind is not one.VAR_KEYWORD for one in parameters.values())

    def test_record_has_the_defaults_of_the_parameters(self) -> None:
        parameters = inspect.signature(Recovery.guard).parameters
        names, options = AllGuardOptions.__annotations__, Options()
        assert {name: getattr(options, name) for name in names} == {name: parameters[name].default for name in names}

    def test_unknown_keyword_is_pythons_own_error(self, lab: Lab) -> None:
        options: Any = {"retries": 3}
        with pytest.raises(TypeError, match="retries"):
            lab.recovery.guard("q", **options)

    @pytest.mark.parametrize(
        "call",
        [
            lambda: build_tool("pay", search, require_permision=False),  # type: ignore[call-arg]
            lambda: Lab().recovery.dispatch_failure(TimeoutError(), retri=search),  # type: ignore[call-arg]
            lambda: Lab().recovery.intervene(search, "x", ask_usr=search),  # type: ignore[call-arg]
        ],
    )
    def test_unknown_keyword_elsewhere_is_an_error_too(self, call: Callable[[], Any]) -> None:
        with pytest.raises(TypeError):
            call()


class TestValues:
    @pytest.mark.parametrize(
        ("options", "right"),
        [
            ({"kind": "modle"}, "model"),
            ({"permission": "tell-model"}, "tell_model"),
            ({"source": "main-agent"}, "main_agent"),
            ({"source": "MainAgent"}, "main_agent"),
            ({"source": "user_requests"}, "user_request"),
        ],
    )
    def test_misspelt_word_raises_with_the_nearest(self, lab: Lab, options: Any, right: str) -> None:
        with pytest.raises(ValueError, match=f'"{right}"'):
            lab.recovery.guard("q", **options)

    @pytest.mark.parametrize("source", ["indexing", "main_agent_2", "user_request_eu", "sub_agent", "agent", "titles"])
    def test_new_source_is_allowed(self, lab: Lab, source: str) -> None:
        assert lab.recovery.guard("q", source=source)(search)("x") == "found x"
        with lab.recovery.run(source=source):
            pass

    def test_misspelt_source_of_a_run_raises(self, lab: Lab) -> None:
        with pytest.raises(ValueError, match="main_agent"):
            lab.recovery.run(source="main-agent")

    @given(st.text(max_size=20))
    @settings(max_examples=examples(100, 1000))
    def test_any_source_is_taken_or_refused(self, source: str) -> None:
        try:
            check_source("q", source, ("main_agent",))
        except ConfigurationError:
            assert source != "main_agent"

    @pytest.mark.parametrize(
        "options",
        [
            {"read_only": True, "idempotent": False},
            {"timeout": 0},
            {"timeout": -1.0},
            {"timeout": float("nan")},
            {"timeout": "5"},
            {"attempt_timeout": timedelta(days=-1)},
            {"base_delay": timedelta(days=1)},
        ],
    )
    def test_value_that_never_works_raises_at_once(self, lab: Lab, options: Any) -> None:
        with pytest.raises(ValueError):  # noqa: PT011  # a ConfigurationError, which is one
            lab.recovery.guard("q", **options)
        assert not lab.recovery.operations

    def test_timedelta_is_a_duration(self, lab: Lab) -> None:
        found = lab.recovery.guard("q", attempt_timeout=timedelta(seconds=7), base_delay=timedelta(milliseconds=250))
        settings = found(search).operation.standing.policy.settings
        assert (settings.call_deadline_s, settings.base_delay_s) == (7.0, 0.25)


class TestRepetition:
    @pytest.mark.parametrize(
        ("options", "calls"),
        [
            ({}, 1),
            ({"idempotent": True}, 4),
            ({"read_only": True}, 4),
            ({"kind": "model"}, 3),
            ({"kind": "model", "idempotent": False}, 1),
        ],
    )
    def test_only_what_may_be_repeated_is(self, lab: Lab, options: Any, calls: int) -> None:
        script = lab.script(TimeoutError())
        with pytest.raises((RecoveryExhausted, TimeoutError)), lab.recovery.run(source="main_agent"):
            lab.recovery.guard("q", **options)(script)()
        assert script.calls == calls

    def test_timeout_limits_the_call_with_its_waits(self, lab: Lab) -> None:
        script = lab.script(TimeoutError(), takes_s=1.0)
        guarded = lab.recovery.guard("q", idempotent=True, timeout=3.0, max_retries=9)(script)
        began = lab.clock.now()
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            guarded()
        assert script.calls == 2
        assert lab.clock.now() - began <= 3.0

    def test_timeout_limits_the_first_attempt(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("q", kind="tool", timeout=2.0)(lambda: attempt().remaining_s)
        assert guarded() == 2.0


class TestNames:
    def test_bare_guard_is_named_after_its_function(self, lab: Lab) -> None:
        @lab.recovery.guard
        def look(query: str) -> str:
            return query

        @lab.recovery.guard
        async def look_later(query: str) -> str:
            return query

        assert (look("x"), asyncio.run(look_later("y"))) == ("x", "y")
        assert (look.operation.name, look_later.operation.name) == ("look", "look_later")

    def test_wrapped_callable_is_named_after_what_it_wraps(self, lab: Lab) -> None:
        class Store:
            def find(self, query: str) -> str:
                return query

        assert lab.recovery.guard()(functools.partial(search, "x"))() == "found x"
        assert lab.recovery.guard()(functools.partial(functools.partial(Store().find), "x"))() == "x"
        assert set(lab.recovery.operations) == {"search", "find"}

    @pytest.mark.parametrize("function", [lambda: 1, functools.partial(lambda: 1)], ids=["lambda", "partial"])
    def test_callable_without_name_needs_one(self, lab: Lab, function: Callable[[], int]) -> None:
        with pytest.raises(ConfigurationError, match="name"):
            lab.recovery.guard()(function)

    def test_static_method_object_is_refused(self, lab: Lab) -> None:
        wrapped: Any = classmethod(lambda cls: 1)
        with pytest.raises(ConfigurationError, match="classmethod"):
            lab.recovery.guard("q")(wrapped)


class TestSecondGuard:
    def test_same_declaration_shares_the_operation(self, lab: Lab) -> None:
        first = lab.recovery.guard("q", max_retries=1, chain=ModelChain("a", "b"))(search)
        second = lab.recovery.guard("q", max_retries=1, chain=ModelChain("a", "b"), idempotent=True)(search)
        assert first.operation is second.operation

    @pytest.mark.parametrize(
        ("options", "difference"),
        [
            ({"max_retries": 2}, "max_retries"),
            ({"kind": "tool"}, "kind"),
            ({"breaker": "shared"}, "breaker"),
            ({"attempt_timeout": 3}, "call_deadline_s"),
            ({"provider": "helios"}, "provider"),
            ({"region": "eu"}, "region"),
            ({"chain": ModelChain("a")}, "chain"),
            ({"settings": Settings(consecutive_failures=2)}, "consecutive_failures"),
            ({"fallback_allowed": False}, "fallback_allowed"),
        ],
    )
    def test_other_declaration_raises_with_the_difference(self, lab: Lab, options: Any, difference: str) -> None:
        lab.recovery.guard("q")(search)
        with pytest.raises(ValueError, match=difference):
            lab.recovery.guard("q", **options)(search)

    def test_fallback_may_be_declared_later(self, lab: Lab) -> None:
        def cache(query: str) -> str:
            return query

        lab.recovery.guard("q", fallback=Fallback(cache))(search)
        later = lab.recovery.guard("cache", max_retries=2, breaker="store", provider="disk")(cache)
        standing = later.operation.standing
        assert (standing.policy.settings.max_retries, standing.breaker.name, standing.provider) == (2, "store", "disk")
        later("x")
        assert standing.breaker.window.successes_since_failure() == 1
        lab.trip("cache")
        with pytest.raises(Exception, match="store"):
            later("x")


class TestMethods:
    def test_method_and_its_outcome_bind_self(self, lab: Lab) -> None:
        class Store:
            def __init__(self, name: str) -> None:
                self.name = name

            @lab.recovery.guard("find")
            def find(self, query: str) -> str:
                return f"{self.name} {query}"

            @lab.recovery.guard("find_later")
            async def find_later(self, query: str) -> str:
                return f"{self.name} {query}"

            @staticmethod
            @lab.recovery.guard("plain")
            def plain(query: str) -> str:
                return query

            @classmethod
            @lab.recovery.guard("made")
            def made(cls, query: str) -> str:
                return cls.__name__ + query

        store = Store("a")
        assert (store.find("x"), Store.find(store, "x")) == ("a x", "a x")
        assert store.find.outcome("x") == Store.find.outcome(store, "x") == Outcome("a x")
        assert asyncio.run(store.find_later("x")) == "a x"
        assert asyncio.run(store.find_later.outcome("x")) == Outcome("a x")
        made: Any = Store.made
        plain: Any = store.plain
        assert (Store.plain("x"), plain("x"), made("x")) == ("x", "x", "Storex")
        assert store.find == store.find != Store("b").find
        assert len({store.find, store.find}) == 1
        assert inspect.iscoroutinefunction(store.find_later)
        assert str(inspect.signature(store.find)) == "(query: 'str') -> 'str'"

    def test_switched_off_method_has_an_outcome(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
        lab = Lab()

        class Store:
            @lab.recovery.guard("find")
            def find(self, query: str) -> str:
                return query

        assert Store().find.outcome("x") == Outcome("x")
