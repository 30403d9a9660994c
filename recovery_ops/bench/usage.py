"""What processes used, as Linux tells it; zeros elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s_of(pid: int) -> float:
    """Processor seconds of one process and of those that it started, whether they still run or have ended."""
    return _cpu_s(_stat(pid), with_children=True) + sum(map(cpu_s_of, _children(pid)))


def cpu_s_of_session(pid: int) -> float:
    """Processor seconds of a process that leads a session, of those in it, and of those that ended."""
    found = _cpu_s(_stat(pid), with_children=True)
    for entry in Path("/proc").glob("[0-9]*"):
        other = _stat(int(entry.name))
        if len(other) > 1 and other[1] == str(pid):  # its parent is ours
            found += _cpu_s(other, with_children=True)
    return found


def rss_mb_of(pid: int) -> float:
    """Resident memory of one process and of those that it started."""
    return _rss_mb(pid) + sum(map(rss_mb_of, _children(pid)))


def _rss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def _children(pid: int) -> list[int]:
    try:
        told = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(number) for text in told for number in text.split()]


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def _cpu_s(stat: list[str], *, with_children: bool) -> float:
    used = stat[11:15] if with_children else stat[11:13]
    return sum(map(int, used)) / _TICKS
