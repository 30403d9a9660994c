"""The panel of spend caps: what the policy limits, what accounts have spent, and which of them reached a cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.pages.window import Window
from events.queries.spend_accounts import Account, spend_accounts
from events.queries.spend_caps import CapReached, caps_reached
from recovery_ops.control.core.forms import label_of
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.spend_settings import SPEND_SETTINGS, SpendCaps

SHOWN_MOST = 50


@dataclass(frozen=True, slots=True)
class SpendPanel:
    """`limits` are the caps that are set, with their values; `action` is what follows at one."""

    limits: list[tuple[str, str]]
    action: str
    accounts: list[Account]
    """The first `SHOWN_MOST` of them, those nearest to a limit."""
    accounts_total: int
    reached: list[CapReached]


def spend_panel(environment: str, document: Mapping[str, Any], window: Window, now: datetime) -> SpendPanel:
    """The caps of a policy document, what is spent now, and which accounts reached a cap in the window. Two queries."""
    caps = parse_policy(document).spend_caps
    accounts = spend_accounts(environment, caps, now) if caps.is_on else []
    return SpendPanel(
        limits=_limits(caps),
        action=caps.action.replace("_", " "),
        accounts=accounts[:SHOWN_MOST],
        accounts_total=len(accounts),
        reached=caps_reached(environment, start=window.start, end=window.end),
    )


def _limits(caps: SpendCaps) -> list[tuple[str, str]]:
    found = []
    for name, setting in SPEND_SETTINGS.items():
        value = getattr(caps, name)
        if value and name.startswith(("run_", "source_", "day_")):
            found.append((label_of(name), f"{value:,.2f} USD" if setting.unit == "USD" else f"{value:,}"))
    return found
