"""What bandit has found, less what was looked at; ends with 1 where something is left. And what pip-audit tells.

python .ci/findings.py bandit report.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOOKED_AT = {
    "B105": "empty texts and sentences about passwords; keys and secrets are masked and hashed (docs/security.md)",
    "B311": "chance for jitter and demonstrations; keys come from `secrets`",
    "B403": "pickle is refused or read only from ourselves; each load is marked by ruff's S301",
    "B404": "that a program starts others is no weakness; each start has fixed words and no shell (ruff's S602, S605)",
    "B603": "as B404",
    "B607": "tools are found through PATH on purpose",
    "B608": "ruff's S608 asks it of each statement: names of tables and columns are constants, values are bound",
}
"""Rules that are asked for nothing here, and why."""


def of_bandit(report: dict[str, Any]) -> Iterator[str]:
    """Findings on lines that ruff was not told about under the same number: `noqa: S101` answers B101 as well."""
    for one in report["results"]:
        number = one["test_id"]
        lines = Path(one["filename"]).read_text().splitlines()
        said = "\n".join(lines[one["line_number"] - 1 : max(one["line_range"]) + 3])
        if number not in LOOKED_AT and f"S{number[1:]}" not in said:
            yield f"{one['filename']}:{one['line_number']}: {number} {one['issue_text']}"
    for one in report["errors"]:
        yield f"{one['filename']}: not read: {one['reason']}"


def of_pip_audit(report: dict[str, Any], lock: str) -> Iterator[str]:
    """Known weaknesses; says aloud how many packages nobody could be asked about."""
    packages = report["dependencies"]
    unasked = [one["name"] for one in packages if "skip_reason" in one]
    print(f"{lock}: {len(packages) - len(unasked)} of {len(packages)} packages audited")
    if unasked:
        print(f"  not audited, because the service does not know them: {', '.join(unasked[:8])} …")
    for one in packages:
        for weakness in one.get("vulns", ()):
            fixed = ", ".join(weakness["fix_versions"]) or "no version yet"
            yield f"{one['name']} {one['version']}: {weakness['id']}, mended in {fixed}"


def main() -> int:
    """Print what is left."""
    found = list(of_bandit(json.loads(Path(sys.argv[2]).read_text())))
    print("\n".join(found) if found else "bandit: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
