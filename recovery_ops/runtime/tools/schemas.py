"""What the model writes, read and held against JSON Schemas; and a schema for handlers that come without one.

`jsonschema` checks everything where it is installed; otherwise `type`, `required`, `enum`, `properties`, `items` and
`additionalProperties` are checked, and the other words of a schema are taken on trust.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import Any, get_type_hints

from recovery_ops.runtime.errors import ConfigurationError, SchemaMismatch

_MOST_FAULTS = 3
_LONGEST_FAULT = 300
_DEEPEST = 32

Faults = Callable[[object], list[str]]
"""What is wrong with a value, at most three sentences, each with the path to the place; empty when it fits."""


def fitting(schema: Mapping[str, Any], whose: str) -> Faults:
    """The check of a schema. ConfigurationError if it is no JSON Schema; `whose` names it in that error.

    References to other documents are never fetched: a value that needs one does not fit.
    """
    try:
        json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{whose} is not JSON: {error}") from error
    try:
        jsonschema = import_module("jsonschema")
        nothing_outside = import_module("referencing").Registry()
    except ImportError:
        return lambda value: list(islice(_faults(schema, value, "$", 0), _MOST_FAULTS))
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ConfigurationError(f"{whose} is not a JSON Schema: {error.message[:_LONGEST_FAULT]}") from error
    validator = kind(schema, registry=nothing_outside)

    def faults(value: object) -> list[str]:
        try:
            found = list(islice(validator.iter_errors(value), _MOST_FAULTS))
        except Exception as error:  # a reference that leads nowhere, or a value too deep to walk
            return [f"$: cannot be checked against the schema ({type(error).__name__})"]
        return [f"{error.json_path}: {error.message}"[:_LONGEST_FAULT] for error in found]

    return faults


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _faults(schema: Any, value: object, path: str, depth: int) -> Iterator[str]:
    """The part of JSON Schema that is checked without the library."""
    if schema is False:
        yield f"{path}: nothing is allowed here"
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    named = schema.get("type", [])
    types = [named] if isinstance(named, str) else list(named)
    if types and not any(_is_a(value, name) for name in types):
        yield f"{path}: is not of type {' or '.join(map(str, types))}"
        return
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        yield f"{path}: is not one of {json.dumps(schema['enum'])[:_LONGEST_FAULT]}"
    if isinstance(value, dict):
        yield from _object_faults(schema, value, path, depth)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _faults(schema.get("items", True), one, f"{path}[{index}]", depth + 1)


def _object_faults(schema: Mapping[str, Any], value: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{path}: {name!r} is a required property"
    for name, one in value.items():
        part = known[name] if name in known else schema.get("additionalProperties", True)
        if part is False:
            yield f"{path}: {name!r} is not expected"
        else:
            yield from _faults(part, one, f"{path}.{name}", depth + 1)


def _is_a(value: object, name: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(str(name), (object,)))


_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def schema_of(handler: Callable[..., Any]) -> dict[str, Any]:
    """What can be told of a handler's arguments from its signature: their names, plain types, and which it needs."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return {"type": "object"}
    try:
        hints = get_type_hints(handler)
    except Exception:  # an annotation may name what is not there at run time
        hints = {}
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: _typed(hints.get(one.name)) for one in named},
        "required": [one.name for one in named if one.default is one.empty],
    }
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        schema["additionalProperties"] = False
    return schema


def _typed(hint: object) -> dict[str, str]:
    origin = getattr(hint, "__origin__", hint)
    name = _NAMES.get(origin) if isinstance(origin, type) else None
    return {"type": name} if name else {}


def read_arguments(given: object) -> dict[str, Any]:
    """The arguments of a call as an object: they come as one, or as its JSON text; nothing at all is no arguments."""
    if given is None:
        return {}
    if isinstance(given, (str, bytes, bytearray)):
        if not given.strip():
            return {}
        given = json.loads(given, parse_constant=_no_such_number)
    if not isinstance(given, Mapping):
        raise SchemaMismatch("the call", ("$: is not of type object",), is_model_output=True)
    return dict(given)


def _no_such_number(word: str) -> Any:
    raise SchemaMismatch("the call", (f"$: {word} is not JSON",), is_model_output=True)
