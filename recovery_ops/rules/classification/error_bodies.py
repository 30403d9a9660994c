"""Finds its way in the error bodies of vendors: where the error is, its codes, its message, its status.

Every function takes parsed JSON of any shape, looks at a bounded number of places and never raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from recovery_ops.rules.classification.codes import GRPC, normal_code
from recovery_ops.rules.lazy_patterns import compiled

_MOST_DETAILS = 16
_MOST_CODES = 8
_LOOKS_LIKE_A_CODE = compiled(r"[A-Za-z_][\w.#:-]{1,99}\Z")
_Json = Mapping[str, object]


def error_part(body: object) -> dict[str, object] | None:
    """The object that describes the error: `body.error` or `body.detail`, or the body where it is not wrapped."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return None
    for name in ("error", "Error", "detail"):
        inner = body.get(name)
        if isinstance(inner, dict):
            return inner
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return errors[0]
    return body


def innermost(body: object) -> dict[str, object] | None:
    """The body, or the one that a gateway packed as text into its message or its metadata (OpenRouter)."""
    outer = body[0] if isinstance(body, list) and body else body
    for _ in range(3):
        part = error_part(outer)
        text = _packed_in(part) if part is not None else None
        if text is None or not text[:80].lstrip().startswith("{") or len(text) > 65_536:
            break
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            break
        if error_part(inner) is None:
            break
        outer = inner
    return outer if isinstance(outer, dict) else None


def _packed_in(part: _Json) -> str | None:
    metadata = part.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    text = part.get("message")
    return (
        raw if isinstance(raw, str) and raw[:80].lstrip().startswith("{") else text if isinstance(text, str) else None
    )


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
        code = _numbered(code, whole, part)
    found = [part.get("error_code"), code, part.get("Code")]
    errors = part.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        found.append(errors[0].get("reason"))  # Google, the older form
    found += (part.get("type"), part.get("error_type"), part.get("status"), part.get("__type"))
    if whole is not part:
        found += (whole.get("code"), whole.get("__type"))
    found.append(whole.get("error"))  # OAuth
    return found


def _numbered(code: int, whole: _Json, part: _Json) -> str | None:
    """The code of a scheme of numbers: JSON-RPC's own range, or gRPC's where it is printed as JSON."""
    if "jsonrpc" in whole or -32_768 <= code <= -32_000:
        return f"jsonrpc_{code}"
    return GRPC[code] if 0 < code < len(GRPC) and "details" in part else None


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
            if name == "message" and isinstance(text, dict):  # LiteLLM
                text = text.get("error") or text.get("message")
            if isinstance(text, str) and text:
                return text
    return ""


def status_in(body: object) -> int | None:
    """The HTTP status that the body repeats (Gemini, vLLM, problem details), between 400 and 599."""
    part = error_part(body)
    if part is None:
        return None
    for source in (part, body if isinstance(body, dict) else part):
        for name in ("code", "status", "statusCode", "status_code", "http_status_code", "raw_status_code"):
            value = source.get(name)
            if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
                value = int(value)  # LiteLLM
            if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
                return value
    return None


def kind_in(body: object) -> str | None:
    """An adapter's word in the body, in its normal form."""
    part = error_part(body)
    kind = part.get("kind") if part is not None else None
    return normal_code(kind) if isinstance(kind, str) else None
