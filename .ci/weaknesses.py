"""Asks pip-audit about every package of some locks, and first shows that it would tell.

python .ci/weaknesses.py PIP_AUDIT LOCK...

Whether a step finds anything is not seen on a day when there is nothing to find. So a service that we play ourselves,
in the words of https://google.github.io/osv.dev/post-v1-query/, knows of a weakness in one package first, and of none
then: the first has to be found, the second has to pass. Then those that know are asked: PyPI, and OSV where it does not
answer. Ends with 1 where a weakness is left, or where the step would not have told of one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from findings import of_pip_audit

PATIENCE_S = 90
KNOWERS = (("--vulnerability-service", "pypi"), ("--vulnerability-service", "osv"))
_JSON = "application/json"


@contextmanager
def playing(weak: str) -> Iterator[str]:
    """The address of a service that knows of a weakness in each version of one package; of none where that is empty."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = asked["package"]["name"]
            affected = {
                "package": {"name": name, "ecosystem": "PyPI"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9999"}]}],
            }
            found = {
                "id": "OSV-0000-1",
                "summary": "made up",
                "published": "2020-01-01T00:00:00Z",
                "affected": [affected],
            }
            told = json.dumps({"vulns": [found]} if name == weak else {}).encode()
            self.send_response(200)
            self.send_header("Content-Type", _JSON)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            """It is no news."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        finally:
            server.shutdown()


def asked(program: str, lock: str, *knower: str) -> tuple[dict[str, Any] | None, str]:
    """The report about a lock, and what was said beside it. None where nobody answered, or nobody knew any of it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = [program, "--disable-pip", "--require-hashes", "-r", lock, "--progress-spinner", "off", *knower]
        words += ["--cache-dir", folder, "-f", "json", "-o", str(report)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            return None, f"no answer within {PATIENCE_S} s"
        said = (done.stderr.strip().splitlines() or [""])[-1]
        if not report.exists() or not report.read_text().strip():
            return None, said
        found: dict[str, Any] = json.loads(report.read_text())
    is_known = any("skip_reason" not in one for one in found["dependencies"])
    return (found, said) if is_known else (None, "it knows none of the packages")


def shown(program: str, lock: str) -> str:
    """Why the step would not tell of a weakness; empty where it does."""
    first = next(line.partition("==")[0] for line in Path(lock).read_text().splitlines() if "==" in line)
    for weak, expected in ((first, 1), ("", 0)):
        with playing(weak) as address:
            report, said = asked(program, lock, "--vulnerability-service", "osv", "--osv-url", address)
        if report is None:
            return f"a service that we played was not heard: {said}"
        found = list(of_pip_audit(report, f"{lock}, of a service that we play"))
        if len(found) != expected or not all(weak in one for one in found):
            return f"of a service that knows of {expected} weakness the step told {found}"
    return ""


def main() -> int:
    """Show that it tells; then ask."""
    program, *locks = sys.argv[1:]
    if why := shown(program, locks[0]):
        print(f"pip-audit: {why}")
        return 1
    left: list[str] = []
    is_asked = False
    for lock in locks:
        for knower in KNOWERS:
            report, said = asked(program, lock, *knower)
            if report is not None:
                left += of_pip_audit(report, lock)
                is_asked = True
                break
        else:
            # The others would wait as long for the same silence.
            print(f"{lock} and what follows: not audited, because no service answers ({said})")
            break
    if is_asked:
        print("\n".join(left) if left else "pip-audit: nothing found")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
