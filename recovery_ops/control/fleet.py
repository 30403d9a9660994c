"""The demonstration fleet as the server sees it: one child process with an agent key of its own."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from django.conf import settings

from events.keys import create_key, find_key
from recovery_ops.children import Child
from recovery_ops.control.actions.attempt import Asked
from recovery_ops.control.actions.notifying import RuleWords, save_chain, save_channel, save_rule
from recovery_ops.control.actors import system
from recovery_ops.control.models import Channel
from recovery_ops.control.notify.triggers import TRIGGERS

KEY_NAME = "demonstration fleet"
RECEIVER, CHAT, PAGER = "demonstration", "demonstration chat", "demonstration pager"
_CHANNELS = {
    RECEIVER: (Channel.WEBHOOK, "/", True),
    CHAT: (Channel.SLACK, "/chat", False),
    PAGER: (Channel.PAGERDUTY, "/pager/v2/enqueue", True),
}
"""Kind, path at the receiver, and whether it has a secret, by name."""
SCOPES = ("ingest", "desired")


def demonstration_fleet(url: str, *, data: Path, environment: str, say: Callable[[str], None]) -> Child:
    """Return the fleet, not started, told where the console is and how to get in.

    It runs `python -m recovery_ops.demo` with RECOVERY_OPS_URL, RECOVERY_OPS_KEY and RECOVERY_OPS_DEMO_DIR, has to end
    when its input does or on SIGTERM, and writes to `data`/demo/fleet.log. `say` hears when it ends by itself.
    """
    folder = data / "demo"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / "fleet.log"
    # The fleet plays strangers: what we know of our own database and secrets is not for them.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_OPS_")}
    ours = {
        **demonstration_receiver(environment),
        "RECOVERY_OPS_URL": url,
        "RECOVERY_OPS_KEY": fleet_key(folder, environment),
        "RECOVERY_OPS_DEMO_DIR": str(folder),
    }
    return Child(
        [sys.executable, "-m", "recovery_ops.demo"],
        env=inherited | ours,
        folder=settings.BASE_DIR,
        log=log,
        on_death=lambda code: say(
            f"the demonstration fleet ended by itself (code {code}); its last words are in {log}"
        ),
    )


def demonstration_receiver(environment: str) -> dict[str, str]:
    """Set up channels that lead to the fleet's own receiver, and return what that one has to know.

    Only where people have set up no channel of their own, and have not removed these; nothing where the worker
    lives in another process, which would not know that it may send to this machine.
    """
    channels = Channel.objects.filter(environment=environment)
    held = {one.name: one for one in channels.filter(name__in=_CHANNELS, removed_at=None)}
    if not settings.EMBEDDED or (not held and channels.exists()):
        return {}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    secret, by = secrets.token_urlsafe(24), system("demonstration")
    settings.NOTIFY_HOSTS = [*settings.NOTIFY_HOSTS, f"127.0.0.1:{port}"]
    asked: Asked = {"by": by, "environment": environment, "reason": "The demonstration shows what is told."}
    is_first = not held
    for name, (kind, path, has_secret) in _CHANNELS.items():
        if is_first or name in held:
            held[name] = save_channel(
                **asked,
                name=name,
                number=held[name].pk if name in held else None,
                kind=kind,
                address=f"http://127.0.0.1:{port}{path}",
                secret=secret if has_secret else "",
            ).object
    if is_first:
        _tell_by(held, asked)
    return {"RECOVERY_OPS_DEMO_PORT": str(port), "RECOVERY_OPS_DEMO_SECRET": secret}


def _tell_by(channels: Mapping[str, Channel], asked: Asked) -> None:
    """Everything to the webhook, what goes on to the chat, what is grave to the pager; the chain asks by webhook."""
    words: dict[str, RuleWords] = {
        # The chain asks about escalations already.
        RECEIVER: {"triggers": [one for one in TRIGGERS if one != "escalation"]},
        CHAT: {"triggers": ["capacity", "breaker_moved", "degraded", "degradation_ended"], "group_s": 30},
        PAGER: {"triggers": ["sla", "capacity", "burn"], "least_severity": "critical"},
    }
    for name, rule in words.items():
        save_rule(**asked, name=name, channel=channels[name].pk, words=rule)
    steps = [{"after_s": after_s, "channel": channels[RECEIVER].pk} for after_s in (0, 120, 600)]
    save_chain(**asked, name="*", steps=steps)


def fleet_key(folder: Path, environment: str) -> str:
    """Return the token kept in `folder`/key (mode 0600) while it lets the fleet in; otherwise make a new one.

    So a start adds a key only where the last one was revoked, has expired, or belongs elsewhere.
    """
    kept = folder / "key"
    if kept.exists():
        token = kept.read_text(encoding="ascii").strip()
        key = find_key(token)
        if key is not None and key.environment == environment and set(SCOPES) <= set(key.scopes.split()):
            return token
        kept.unlink()
    _, token = create_key(KEY_NAME, SCOPES, environment)
    with os.fdopen(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token
