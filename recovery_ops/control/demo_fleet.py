"""The demonstration fleet as the server sees it: one child process with keys of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from events.keys import create_key, find_key
from recovery_ops.control.demo_notifications import demonstration_receiver
from recovery_ops.control.notifications.recipients import names_of_responders
from recovery_ops.server.child_process import Child

KEY_NAME, SCOPES = "demonstration fleet", ("ingest", "desired")
OPERATOR_NAME, OPERATOR_SCOPES = "demonstration operator", ("read", "act", "settings")


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
    people = names_of_responders(environment, now=timezone.now())
    ours = {
        **(received := demonstration_receiver(environment)),
        # Who has channels of their own has questions and outages of their own, too: those are for people.
        **({"RECOVERY_OPS_DEMO_OPERATOR_KEY": operator_key(folder, environment)} if received else {}),
        **({"RECOVERY_OPS_DEMO_PERSON": people[0]} if received and people else {}),
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


def fleet_key(folder: Path, environment: str) -> str:
    """Return the token of the agents, kept in `folder`/key."""
    return _kept_key(folder / "key", KEY_NAME, SCOPES, environment)


def operator_key(folder: Path, environment: str) -> str:
    """Return the token of the one who plays somebody on call, kept in `folder`/operator-key."""
    return _kept_key(folder / "operator-key", OPERATOR_NAME, OPERATOR_SCOPES, environment)


def _kept_key(kept: Path, name: str, scopes: Sequence[str], environment: str) -> str:
    """Return the token in a file (mode 0600) while it lets them in; otherwise make a new one.

    So a start adds a key only where the last one was revoked, has expired, or belongs elsewhere.
    """
    if kept.exists():
        token = kept.read_text(encoding="ascii").strip()
        key = find_key(token)
        if key is not None and key.environment == environment and set(scopes) <= set(key.scopes.split()):
            return token
        kept.unlink()
    _, token = create_key(name, scopes, environment)
    with os.fdopen(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token
