"""Which environments are production: what an admin said of each, and until then its name."""

from __future__ import annotations

from recovery_ops.control.core.models.environment_rules import EnvironmentRules

_PREFIX = "prod"
"""New environments with such a name are protected from their first minute."""


def is_production(environment: str) -> bool:
    """Whether the environment is production. One query."""
    rules = EnvironmentRules.objects.filter(environment=environment)
    return by_setting_or_name(environment, rules.values_list("is_production", flat=True).first())


def by_setting_or_name(environment: str, setting: bool | None) -> bool:
    """Whether the environment is production, where its setting is known already."""
    return environment.startswith(_PREFIX) if setting is None else setting
