"""Every category by every kind of evidence that can reach it, the order of evidence, and what must not match."""

from __future__ import annotations

from recovery_ops.rules.classification.classify import Failure, Signal, classify

NOW = 1_800_000_000.0


def of(**parts: object) -> Failure:
    return classify(Signal(**parts), now=NOW)  # type: ignore[arg-type]  # the tables below are untyped on purpose


def typed(*names: str) -> tuple[tuple[str, ...], ...]:
    """A chain of one exception, with the names of its class and bases."""
    return (tuple(spelled_out(name) for name in names),)


def chained(*links: str) -> tuple[tuple[str, ...], ...]:
    """A cause chain, outermost first; each link names its class and bases, separated by blanks."""
    return tuple(tuple(spelled_out(name) for name in link.split()) for link in links)


def spelled_out(name: str) -> str:
    for short, module in SHORT.items():
        name = name.replace(f"{short}:", f"{module}.")
    return name


SHORT = {
    "aiohttp": "aiohttp.client_exceptions",
    "requests": "requests.exceptions",
    "urllib3": "urllib3.exceptions",
    "botocore": "botocore.exceptions",
}
