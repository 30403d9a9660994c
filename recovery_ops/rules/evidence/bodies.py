"""Finds its way in the error bodies of vendors: where the error is, its codes, its message, its status.

Every function takes parsed JSON of any shape, looks at a bounded number of places and never raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from recovery_ops.rules.evidence.codes import normal_code
from recovery_ops.rules.patterns import compiled

_MOST_DETAILS = 16
_MOST_CODES = 8
_LOOKS_LIKE_A_CODE = compiled(r"[A-Za-z_][\w.#:-]{1,99}\Z")
_Json = Mapping[str, object]


def error_part(body: object) -> dict[str, object] | None:
    """The object that describes the error: `body.error`, or the body itself where it is not wrapped."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return None
    for name in ("error", "Error"):
        inner = body.get(name)
        if isinstance(inner, dict):
            return inner
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return errors[0]
    return body


def innermost(body: object) -> dict[str, object] | None:
    """The body, or the one that a gateway packed as text into its message."""
    outer = body[0] if isinstance(body, list) and body else body
    for _ in range(3):
        part = error_part(outer)
        text = part.get("message") if part is not None else None
        if not isinstance(text, str) or not text[:80].lstrip().startswith("{") or len(text) > 65_536:
            break
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            break
        if error_part(inner) is None:
            break
        outer = inner
    return outer if isinstance(outer, dict) else None


def codes_in(body: object) -> tuple[str, ...]:
    """The structured codes in their normal form, the most specific first."""
    part = error_part(body)
    if part is None:
        return ()
    whole = body if isinstance(body, dict) else part
    found: list[str] = []
    for value in (*_deep_codes(part), *_flat_codes(whole, part)):
        if isinstance(value, str) and _LOOKS_LIKE_A_CODE.match(value):
            code = normal_code(value)
            if code not in found and code != "error":
                found.append(code)
    return tuple(found[:_MOST_CODES])


def _deep_codes(part: _Json) -> list[object]:
    """Codes of the cause, which some vendors keep inside the error."""
    found: list[object] = []
    details = part.get("details")
    if isinstance(details, dict):
        found.append(details.get("error_code"))  # Anthropic
    elif details:
        found.extend(detail.get("reason") for detail in details_in(part))  # Google
    for name in ("innererror", "extensions", "metadata"):  # Azure, GraphQL, OpenRouter
        inner = part.get(name)
        if isinstance(inner, dict):
            found += (inner.get("code"), inner.get("error_type"))
    return found


def _flat_codes(whole: _Json, part: _Json) -> list[object]:
    code = part.get("code")
    if isinstance(code, int):
        code = f"jsonrpc_{code}" if "jsonrpc" in whole else None
    found = [part.get("error_code"), code, part.get("Code")]
    errors = part.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        found.append(errors[0].get("reason"))  # Google, the older form
    found += (part.get("type"), part.get("error_type"), part.get("status"), part.get("__type"))
    if whole is not part:
        found += (whole.get("code"), whole.get("__type"))
    found.append(whole.get("error"))  # OAuth
    return found


def details_in(body: object) -> Iterator[dict[str, object]]:
    """The entries of a `google.rpc.Status`' details (at most 16)."""
    part = error_part(body)
    details = part.get("details") if part is not None else None
    if isinstance(details, list):
        yield from (detail for detail in details[:_MOST_DETAILS] if isinstance(detail, dict))


def quotas_in(body: object) -> Iterator[dict[str, object]]:
    """The violated quotas that a `google.rpc.QuotaFailure` names (at most 16)."""
    for detail in details_in(body):
        violations = detail.get("violations")
        if isinstance(violations, list):
            yield from (quota for quota in violations[:_MOST_DETAILS] if isinstance(quota, dict))
        metadata = detail.get("metadata")
        if isinstance(metadata, dict) and "quota_limit" in metadata:
            yield metadata


def message_in(body: object) -> str:
    """What the body says for people; empty where it says nothing."""
    part = error_part(body)
    if part is None:
        return ""
    sources = (part, body) if isinstance(body, dict) else (part,)
    for source in sources:
        for name in ("message", "Message", "msg", "detail", "error_description", "error", "title"):
            text = source.get(name)
            if isinstance(text, str) and text:
                return text
    return ""


def status_in(body: object) -> int | None:
    """The HTTP status that the body repeats (Gemini, vLLM, problem details), between 400 and 599."""
    part = error_part(body)
    if part is None:
        return None
    for source in (part, body if isinstance(body, dict) else part):
        for name in ("code", "status", "statusCode", "status_code", "raw_status_code"):
            value = source.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
                return value
    return None
