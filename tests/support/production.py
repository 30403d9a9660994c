"""The examples for production: systemd understands the units, and they start what there is."""

from __future__ import annotations

import shutil
from fnmatch import fnmatch
from pathlib import Path

from tests.support.processes import ROOT


def copied(place: Path) -> Path:
    """What `COPY . .` puts into the image: the checkout without what `.dockerignore` names."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    at_the_top = [one for one in patterns if "/" not in one]
    anywhere = [one.removeprefix("**/") for one in patterns if one.startswith("**/")]

    def left_out(folder: str, names: list[str]) -> set[str]:
        here = [*anywhere, *(at_the_top if Path(folder) == ROOT else ())]
        return {name for name in names if any(fnmatch(name, pattern) for pattern in here)}

    shutil.copytree(ROOT, place, ignore=left_out, symlinks=True)
    return place
