"""The locks say what `pyproject.toml` asks for, each with its hashes, and name no place to get it from."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.processes import ROOT

pytestmark = pytest.mark.quick

LOCKS = ROOT / "recovery_ops" / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = ("server", "test", "integrations", "bench", "audit")
EXTRAS = {
    "server": ("server",),
    "test": ("server", "test"),
    "integrations": ("integrations",),
    "bench": ("bench",),
    "audit": ("audit",),
}


@dataclass(frozen=True)
class Pin:
    """One line of a lock with its hashes."""

    requirement: Requirement
    hashes: int

    @property
    def version(self) -> str:
        return next(iter(self.requirement.specifier)).version


def pins(name: str) -> dict[str, Pin]:
    """Return what a lock pins, by canonical name."""
    text = (LOCKS / f"{name}.txt").read_text().replace("\\\n", " ")
    found: dict[str, Pin] = {}
    for line in text.splitlines():
        requirement, *hashes = line.split("--hash=")
        parsed = Requirement(requirement)
        found[canonicalize_name(parsed.name)] = Pin(parsed, len(hashes))
    return found


def asked(name: str) -> list[Requirement]:
    """Return what the project asks for: the agent's needs, and those of the extras that the lock is for."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in EXTRAS[name] for line in extras[extra])]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_the_lock_has_all_that_the_project_asks_for(name: str) -> None:
    locked = pins(name)
    for requirement in asked(name):
        pin = locked.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement} is in pyproject.toml and not in {name}.txt: compile the lock anew"
        assert requirement.specifier.contains(pin.version), f"{name}.txt has {pin.version}, wanted {requirement}"


@pytest.mark.parametrize("name", NAMES)
def test_the_lock_has_all_that_its_packages_ask_for(name: str) -> None:
    locked = pins(name)
    wanted: dict[str, set[str]] = {canonicalize_name(one.name): one.extras for one in asked(name)}
    missing = []
    for package in locked:
        for need in needs(package, {"", *wanted.get(package, set())}):
            pin = locked.get(canonicalize_name(need.name))
            if pin is None or not need.specifier.contains(pin.version, prereleases=True):
                missing.append(f"{package} needs {need}")
    assert missing == []


def needs(package: str, extras: set[str]) -> list[Requirement]:
    """Return what an installed package needs on this machine; nothing for one that is only for others."""
    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []
    found = [Requirement(line) for line in lines]
    return [
        need for need in found if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def test_what_the_server_has_the_tests_have_in_the_same_version() -> None:
    server, test = pins("server"), pins("test")
    assert {name: pin.version for name, pin in server.items()} == {
        name: pin.version for name, pin in test.items() if name in server
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_pin_is_exact_and_has_hashes(name: str) -> None:
    loose = [
        package
        for package, pin in pins(name).items()
        if pin.hashes < 1 or [one.operator for one in pin.requirement.specifier] != ["=="]
    ]
    assert loose == []


@pytest.mark.parametrize("path", sorted(LOCKS.iterdir()), ids=lambda path: str(path.name))
def test_no_lock_names_an_address_or_an_option(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if re.search(r"://|@ |^\s*-(?!-hash=)", line)] == []
