"""What the snippets of the documents take for granted: the reader's own functions, each in its simplest form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from recovery_ops.runtime import RecoveryExhausted, Response
from recovery_ops.runtime.testing import HttpError, Lab

CALL = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "use-1", "name": "search_web", "input": {"query": "x"}}],
}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}


class NotReady(Exception):
    """An exception of the reader's own."""


def saying(*words: str) -> Callable[..., list[str]]:
    """A function of the reader's that answers so."""
    return lambda *args: list(words)


def guarding(lab: Lab, folder: Path) -> dict[str, Any]:
    """For the page about guards."""
    return {
        "find_pages": saying("a page"),
        "charge_card": lambda order: f"charged {order}",
        "fetch_report": lab.script(NotReady(), "pending", "done"),
        "NotReady": NotReady,
        "tell": lambda *words: None,
        "log": lambda *words: None,
    }


def fallbacks(lab: Lab, folder: Path) -> dict[str, Any]:
    """For the page about fallbacks: live prices are down, and a mood is not found."""
    told: list[Any] = []
    return {
        "live_prices": lab.script(503),
        "cached_prices": lambda flight: {flight: 420},
        "guess_mood": lab.script(404),
        "tell": lambda *words: told.extend(words),
        "told": told,
    }


def models(lab: Lab, folder: Path) -> dict[str, Any]:
    """For the page about models."""
    return {
        "client": SimpleNamespace(create=lambda **said: said),
        "service": SimpleNamespace(rank=lambda texts, key: sorted(texts)),
    }


def tools(lab: Lab, folder: Path) -> dict[str, Any]:
    """For the page about tools."""
    replies = lab.script(CALL, ANSWER)
    overflow = Response(400, body={"error": {"code": "context_length_exceeded"}})
    return {
        "really_search": saying("a page"),
        "send_mail": lambda to: to,
        "allowed": {"search_web"},
        "ask_model": lambda messages, tools: replies(),
        "ask_in_words": lab.script(overflow, ANSWER),
        "with_short_results": lambda messages: [*messages],
        "keep_conversation": lambda messages: "conversation-1",
        "saved_messages": [{"role": "user", "content": "go on"}, CALL],
    }


def workflows(lab: Lab, folder: Path) -> dict[str, Any]:
    """For the page about workflows."""
    saved: list[str] = []
    keys: list[str] = []

    def refund(charge: str, *, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        return f"refunded {charge}"

    def refund_by_hand(order: str) -> str:
        raise RecoveryExhausted("refund", last_error=None, attempts=1)

    return {
        "payments": SimpleNamespace(refund=refund),
        "load_order": lambda order: {"charge": "ch-1", "mail": "a@example.org"},
        "find_refund": lambda charge: None,
        "refund_by_hand": refund_by_hand,
        "send_mail": lambda to, receipt: None,
        "save": saved.append,
        "saved": saved,
        "saved_resume_id": lambda: saved[0],
        "keys": keys,
    }


def failures(lab: Lab, folder: Path) -> dict[str, Any]:
    """For the page about failures."""
    return {"book": lab.script(ConnectionRefusedError("refused"), "booked")}


def migrating(lab: Lab, folder: Path) -> dict[str, Any]:
    """For the page about other libraries: each second `get` succeeds, `pay` never does, and one model is down."""
    received: list[str] = []

    def get(url: str) -> str:
        received.append(url)
        if received.count(url) % 2:
            raise ConnectionResetError("reset")
        return "a page"

    def pay(order: int) -> str:
        received.append(f"order {order}")
        raise ConnectionResetError("reset")

    def complete(model: str, messages: list[dict[str, str]]) -> str:
        received.append(model)
        if model == "large":
            raise HttpError(500)
        return f"{messages[0]['content']} from {model}"

    return {"get": get, "pay": pay, "complete": complete, "received": received}


WORLDS: dict[str, Callable[[Lab, Path], dict[str, Any]]] = {
    "README": lambda lab, folder: {"really_search": saying("a page")},
    "guarding": guarding,
    "runs": lambda lab, folder: {"find_pages": saying("a page")},
    "fallbacks": fallbacks,
    "models": models,
    "tools": tools,
    "workflows": workflows,
    "failures": failures,
    "testing": lambda lab, folder: {"tmp_path": folder, "messages": []},
    "migrating": migrating,
    **dict.fromkeys(
        ("guard-options", "human-input", "run-limits", "spend-caps", "production", "opentelemetry"),
        lambda lab, folder: {},
    ),
}
