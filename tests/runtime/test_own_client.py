"""The process's own client: never a closed one; and the end of the process closes every client that is open."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.processes import ROOT, clean_environment

pytestmark = pytest.mark.default

PRELUDE = """
from recovery_ops.rules.events import InstanceHeartbeat
from recovery_ops.runtime import Recovery
from recovery_ops.runtime.default_client import default

class Ends:
    def __init__(self, name): self.name = name
    def emit(self, fact, *about):
        if isinstance(fact, InstanceHeartbeat) and fact.status == "stopped": print(self.name, flush=True)

def client(name, sink=None): return Recovery(name, url="", sink=sink or Ends(name))
def owner(): return default().guard("search")(len).operation.place.service
"""


def said(code: str) -> list[str]:
    """What a process prints that runs this code."""
    words = [sys.executable, "-W", "error", "-c", PRELUDE + code]
    environment = clean_environment({"PYTHONPATH": str(ROOT), "RECOVERY_OPS_SERVICE": "made"})
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_first_open_client_is_the_process_own() -> None:
    assert said("a, b = client('a'), client('b'); print(owner()); a.close(); b.close()")[0] == "a"


def test_closed_client_is_followed_by_an_open_one() -> None:
    assert said("a, b = client('a'), client('b'); owner(); a.close(); print(owner()); b.close()") == ["a", "b", "b"]


def test_closed_own_client_is_replaced_by_another() -> None:
    code = """
from recovery_ops.runtime.default_client import default
first = default(); first.close(); print(default() is not first, default().is_closed)
"""
    assert said(code) == ["True", "False"]


def test_closing_client_is_not_the_process_own() -> None:
    code = """
class Asking(Ends):
    def emit(self, fact, *about):
        if isinstance(fact, InstanceHeartbeat) and fact.status == "stopped": print(owner())
a = client("a", Asking("a")); owner(); a.close()
"""
    assert said(code) == ["made"]


def test_end_of_process_closes_every_client() -> None:
    assert said("all = [client(name) for name in 'abcde']") == list("abcde")


def test_client_that_fails_to_close_leaves_others_closed() -> None:
    code = """
import logging
logging.disable()
class Broken(Ends):
    def emit(self, fact, *about): raise OSError
all = [client("a", Broken("a")), client("b")]
"""
    assert said(code) == ["b"]
