"""What can be said of a tool, what holds where nothing is said, and what the model is offered."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules.tools.policy_limits import Caution, ToolRule
from recovery_ops.runtime import ConfigurationError, Fallback, SchemaMismatch, ToolRegistry, build_tool
from recovery_ops.runtime.aio.task_group import in_thread
from recovery_ops.runtime.testing import Lab
from recovery_ops.runtime.tools.schemas import fitting, read_arguments, schema_of
from tests.runtime.tools.toolboxes import live, open_tool, registry_of, scripted

NESTED = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "size": {"enum": ["s", "m"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "maybe": {"type": ["number", "null"]},
        "never": False,
    },
    "required": ["n"],
    "additionalProperties": False,
}


def pay(order: int, note: str = "") -> str:
    """Pays an order.

    Not to be done twice.
    """
    return f"{order}{note}"


class TestBuildTool:
    def test_what_is_absent_is_the_most_restrictive(self) -> None:
        tool = build_tool("pay", pay)
        assert tool.caution == Caution(idempotent=False, is_destructive=True, optional=False, require_permission=True)
        assert (tool.max_retries, tool.fallbacks, tool.output_schema, tool.kind) == (0, (), None, "tool")
        assert tool.masks_output

    @pytest.mark.parametrize("said", [None, 0, "", "no", 1])
    def test_only_a_clear_word_relaxes(self, said: Any) -> None:
        tool = build_tool("pay", pay, idempotent=said, is_destructive=said, optional=said, require_permission=said)
        assert tool.caution == Caution()

    @pytest.mark.parametrize("said", [None, 0, "no", False])
    def test_only_true_allows_a_bypass(self, said: Any) -> None:
        assert not build_tool("approve", pay, bypass_allowed=said).caution.bypass_allowed
        assert build_tool("approve", pay, bypass_allowed=True).caution.bypass_allowed

    def test_optional_tool_without_bypass_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="contradicts bypass_allowed=False"):
            build_tool("approve", pay, optional=True, bypass_allowed=False)

    def test_the_description_is_the_first_part_of_the_handlers(self) -> None:
        assert build_tool("pay", pay).description == "Pays an order."
        assert build_tool("pay", pay, description="Own.").description == "Own."

    def test_schema_text_keeps_every_letter(self) -> None:
        schema = {"type": "object", "properties": {"größe": {"type": "integer"}}}
        tool = build_tool("pay", pay, input_schema=schema)
        assert "größe" in tool.schema_text
        assert json.loads(tool.schema_text) == schema

    def test_vendors_get_it_in_their_form(self) -> None:
        tool = build_tool("pay", pay, input_schema={"type": "object"})
        assert tool.as_anthropic() == {
            "name": "pay",
            "description": "Pays an order.",
            "input_schema": {"type": "object"},
        }
        assert tool.as_openai()["function"]["parameters"] == {"type": "object"}

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"name": ""}, "visible characters"),
            ({"name": "a" * 129}, "visible characters"),
            ({"name": "a\u202eb"}, "visible characters"),
            ({"name": "two\nlines"}, "visible characters"),
            ({"handler": 7}, "must be callable"),
            ({"kind": "toool"}, 'kind .toool. does not exist; use "tool"'),
            ({"max_retries": -1}, "whole number from 0"),
            ({"max_retries": True}, "whole number from 0"),
            ({"max_retries": 1.5}, "whole number from 0"),
            ({"attempt_timeout": 0}, "above 0"),
            ({"attempt_timeout": float("nan")}, "a number from 0 to 86400 s"),
            ({"fallback": 7}, "callable or a Fallback"),
            ({"fallback": ["cache"]}, "callable or a Fallback"),
            ({"input_schema": {"type": "thing"}}, "input_schema of pay is not a JSON Schema"),
            ({"input_schema": {"enum": {1}}}, "input_schema of pay is not JSON"),
            ({"output_schema": {"type": 7}}, "output_schema of pay is not a JSON Schema"),
        ],
    )
    def test_what_could_never_work_is_refused_at_once(self, said: dict[str, Any], message: str) -> None:
        given: dict[str, Any] = {"name": "pay", "handler": pay} | said
        with pytest.raises(ConfigurationError, match=message):
            build_tool(**given)

    def test_a_tool_is_no_fallback(self) -> None:
        with pytest.raises(ConfigurationError, match="not a Tool"):
            build_tool("pay", pay, fallback=build_tool("other", pay))  # type: ignore[arg-type]  # what the test is about


class TestSignature:
    def test_names_types_and_needs_are_told(self) -> None:
        def search(query: str, limit: int = 3, *, tags: list[str] | None = None, exact: bool = False) -> None: ...

        assert schema_of(search) == {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer"},
                "tags": {},
                "exact": {"type": "boolean"},
            },
            "required": ["query"],
            "additionalProperties": False,
        }

    def test_what_takes_anything_says_so(self) -> None:
        assert schema_of(lambda **rest: rest) == {"type": "object", "properties": {}, "required": []}

    def test_annotations_that_name_nothing_are_left_out(self) -> None:
        def search(query: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # what the test is about

        assert schema_of(search)["properties"] == {"query": {}}

    def test_what_has_no_signature_takes_an_object(self) -> None:
        assert schema_of(min) == {"type": "object"}

    def test_the_types_of_containers_are_told(self) -> None:
        def add(items: list[int], by: dict[str, int], share: float) -> None: ...

        kinds = {name: part["type"] for name, part in schema_of(add)["properties"].items()}
        assert kinds == {"items": "array", "by": "object", "share": "number"}


@pytest.fixture(params=["with jsonschema", "without"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks hold with the library and without it."""
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "jsonschema", None)


class TestSchemas:
    @pytest.mark.parametrize(
        ("value", "place"),
        [
            ({"n": 1}, ""),
            ({"n": 1.0, "size": "m", "tags": [], "maybe": None}, ""),
            ({}, "$"),
            ([], "$"),
            ({"n": True}, "$.n"),
            ({"n": "1"}, "$.n"),
            ({"n": 1.5}, "$.n"),
            ({"n": 1, "size": "xl"}, "$.size"),
            ({"n": 1, "tags": ["a", 1]}, "$.tags[1]"),
            ({"n": 1, "maybe": "x"}, "$.maybe"),
            ({"n": 1, "other": 1}, "$"),
        ],
    )
    def test_what_does_not_fit_is_named_by_its_place(self, either_way: None, value: object, place: str) -> None:
        faults = fitting(NESTED, "a schema")(value)
        assert [fault.partition(": ")[0] for fault in faults] == ([place] if place else [])

    def test_what_may_never_stand_there_is_a_fault(self, either_way: None) -> None:
        assert fitting(NESTED, "a schema")({"n": 1, "never": 1})

    def test_no_more_than_three_faults_are_told(self, either_way: None) -> None:
        schema = {"type": "array", "items": {"type": "string"}}
        assert len(fitting(schema, "a schema")([1] * 9)) == 3

    def test_a_very_deep_value_is_told_or_let_through_but_never_raises(self, either_way: None) -> None:
        value: Any = []
        for _ in range(5000):
            value = [value]
        schema: dict[str, Any] = {"type": "array", "items": {"$ref": "#"}}
        fitting(schema, "a schema")(value)


def test_a_reference_to_elsewhere_is_never_fetched() -> None:
    faults = fitting({"$ref": "http://127.0.0.1:1/schema.json"}, "a schema")({})
    assert faults == ["$: cannot be checked against the schema (_WrappedReferencingError)"]


class TestReadArguments:
    @pytest.mark.parametrize(
        ("given", "read"),
        [
            (None, {}),
            ("", {}),
            (" ", {}),
            ("{}", {}),
            ('{"a": 1}', {"a": 1}),
            (b'{"a": 1}', {"a": 1}),
            ({"a": 1}, {"a": 1}),
        ],
    )
    def test_an_object_comes_in_several_forms(self, given: object, read: dict[str, Any]) -> None:
        assert read_arguments(given) == read

    @pytest.mark.parametrize("given", ["[]", "7", "null", 7, [], '{"a": Infinity}'])
    def test_anything_else_is_the_models_mistake(self, given: object) -> None:
        with pytest.raises(SchemaMismatch) as raised:
            read_arguments(given)
        assert raised.value.kind == "model_output"


class TestRegistry:
    def test_the_names_are_those_of_its_tools_in_order(self) -> None:
        lab = Lab()
        registry = registry_of(lab, scripted(lab, "b", 1), scripted(lab, "a", 1))
        assert registry.names == ("b", "a")
        assert [tool.name for tool in registry.offered()] == ["b", "a"]
        assert registry.get("a") is not None
        assert registry.get("c") is None

    def test_a_tool_is_an_operation_before_its_first_call(self) -> None:
        lab = Lab()
        registry_of(lab, scripted(lab, "search", 1, breaker="provider-x", kind="document"))
        operation = lab.recovery.operations["search"]
        assert (operation.declaration.kind, operation.place.breaker) == ("document", "provider-x")
        assert operation.standing.policy.settings.call_deadline_s == 60.0

    def test_two_tools_of_one_name_are_refused(self) -> None:
        lab = Lab()
        registry = registry_of(lab, scripted(lab, "search", 1))
        with pytest.raises(ConfigurationError, match="already a tool named search"):
            registry.add(scripted(lab, "search", 2))

    def test_without_a_runtime_it_is_the_process_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lab = Lab()
        monkeypatch.setattr("recovery_ops.runtime.default_client.default", lambda: lab.recovery)
        assert ToolRegistry().recovery is lab.recovery

    def test_a_live_policy_tightens_and_never_relaxes(self) -> None:
        lab = Lab()
        tool = scripted(lab, "search", 1, read_only=True, optional=True)
        registry = registry_of(lab, tool)
        assert registry.caution_of(tool) == tool.caution
        rule = ToolRule(
            operation="se*",
            is_unrepeatable=True,
            require_permission=True,
            is_destructive=True,
            is_required=True,
            forbids_bypass=True,
        )
        live(lab, tools=(rule,))
        assert registry.caution_of(tool) == Caution(bypass_allowed=False)

    def test_fallbacks_keep_their_names_and_guards(self) -> None:
        lab = Lab()
        cache = lab.recovery.guard("cache", idempotent=True)(lambda: 7)
        plain: Callable[[], int] = lambda: 8  # noqa: E731  # it has no name of its own
        fallbacks = [Fallback(cache), Fallback(plain, name="plain")]
        registry_of(lab, open_tool("prices", lab.script(ValueError()), fallback=fallbacks))
        assert {"prices", "cache", "plain"} == set(lab.recovery.operations)


def test_a_thread_gives_back_whatever_the_work_raised() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    async def work() -> str:
        try:
            await in_thread(stop)
        except KeyboardInterrupt:
            return "interrupted"
        return "finished"

    assert asyncio.run(work()) == "interrupted"
