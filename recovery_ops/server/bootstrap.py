"""What `manage.py` does before Django exists: an environment that holds the lock. Standard library only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
INTEGRATIONS = ROOT / ".venv-integrations"
BENCH = ROOT / ".venv-bench"
LOCKS = ROOT / "recovery_ops" / "locks"
_ENTERED = "_RECOVERY_OPS_ENTERED_VENV"

_CAUSES = {
    ("No space left on device",): "The disk is full: make room (about 700 MB)",
    (
        "DO NOT MATCH THE HASHES",
    ): "A package is not the one that the lock names (another build on a mirror, an edited lock)",
    ("CERTIFICATE_VERIFY_FAILED", "SSLError"): "Tell pip which certificate to trust (pip config set global.cert FILE)",
    ("Retrying (Retry(", "Connection refused", "name resolution", "timed out", "Network is unreachable"): (
        "The package index cannot be reached: check the network, or name one (pip config set global.index-url ADDRESS)"
    ),
    ("No matching distribution found",): "The package index has no build of a package for this Python and this machine",
    ("Permission denied",): "This account may not write there",
}


class CannotPrepare(Exception):
    """The environment cannot be made. The text says why and what to do."""


def prepare(argv: list[str]) -> None:
    """Return inside an environment with everything that the command needs; otherwise start again inside one."""
    lock = LOCKS / ("test.txt" if argv[1:2] in (["test"], ["lint"]) else "server.txt")
    is_entered = os.environ.pop(_ENTERED, "") == "1"
    is_inside = sys.prefix != sys.base_prefix
    if os.environ.get("RECOVERY_OPS_NO_VENV") == "1" or (is_inside and not _is_ours()):
        _say_what_is_missing(lock)
        return
    if is_inside:
        _fit(lock)
        _add_command()
        return
    if is_entered:
        raise CannotPrepare(f"{VENV} is damaged. Remove it and run the same command again.")
    python = VENV / "bin" / "python"
    if not os.access(python, os.X_OK):
        with _alone():
            if not os.access(python, os.X_OK):
                _make(VENV)
    os.environ[_ENTERED] = "1"
    os.execv(python, [str(python), *argv])  # noqa: S606  # no shell is the point


def take_data_option(argv: list[str]) -> list[str]:
    """Move `--data DIR`, which every command takes, into the environment: settings are read before options."""
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, is_joined, value = word.partition("=")
        if word == "--":
            return [*rest, word, *words]
        if name != "--data":
            rest.append(word)
            continue
        value = value if is_joined else next(words, "")
        if not value:
            sys.exit("--data needs a directory.")
        os.environ["RECOVERY_OPS_DATA"] = str(Path(value).expanduser().absolute())
    return rest


TEST_HELP = """usage: manage.py test [--quick | --all | --slice NAMES] [PATH ...] [options of pytest]

Run the default tier of the tests, or:

  PATH           all tests of a file or folder
  --quick        the quick tier: rules, wire format, runtime; every page once
  --all          the full tier: also fuzzing, fault drill, browser, benchmarks
  --slice NAMES  slices of the full tier, separated by commas; tests/tiers.py lists them

Options of pytest work too: -k EXPRESSION, -x, -n PROCESSES, --durations=30.
`python -m pytest --help` lists them.
"""


def run_tests(arguments: list[str]) -> NoReturn:
    """Become pytest: all cores for a tier, one process for a chosen part (starting more takes seconds).

    `--quick`, `--all` and `--slice NAMES` choose what runs; the words beside them are pytest's.
    """
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(TEST_HELP)
        sys.exit()
    os.chdir(ROOT)
    # A run starts dozens of processes: each would compile everything again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    tiers = {"--quick": "quick", "--all": "all"}
    chosen = [tiers[word] for word in arguments if word in tiers]
    words = _joined("--slice", [word for word in arguments if word not in tiers])
    has_slice = any(word.startswith("--slice=") for word in words)
    has_path = any(Path(word.partition("::")[0]).exists() for word in words)
    if chosen or not (has_slice or has_path):
        words = [f"--tier={(chosen or ['default'])[-1]}", *words]
    if "--tier=quick" not in words:
        _get_browser()
    if "--tier=all" in words or any("integrations" in word or "agent" in word for word in words):
        prepare_integrations()
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if cores > 1 and not has_path and not any(word.startswith("-n") for word in words):
        words = ["-n", str(min(cores, 8)), *words]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *words])  # noqa: S606  # no shell is the point


def _joined(option: str, words: list[str]) -> list[str]:
    """The words with `--option value` as one word: apart, pytest takes a value like `events` for a folder to run."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == option:
            joined[-1] = f"{option}={word}"
        else:
            joined.append(word)
    return joined


def _get_browser() -> None:
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
    if not any(map(shutil.which, names)):
        # Where this fails, the tests say at their end that they had no browser.
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False, timeout=300)


def run_lint(arguments: list[str]) -> NoReturn:
    """Run every check that needs no test: `--fix` first mends what can be mended. Exits with 1 if one fails."""
    os.chdir(ROOT)
    if any(word != "--fix" for word in arguments):
        sys.exit(f"`lint` takes only --fix, not {' '.join(arguments)}.")
    place = Path(sys.executable).parent
    is_fixing = "--fix" in arguments
    with TemporaryDirectory() as data:
        checks: dict[str, list[str | Path]] = {
            "ruff check": [place / "ruff", "check", "--quiet", *(["--fix"] if is_fixing else []), "."],
            "ruff format": [place / "ruff", "format", "--quiet", *([] if is_fixing else ["--check"]), "."],
            "mypy": [place / "mypy"],
            "import-linter": [place / "lint-imports"],
            "dependencies": [place / "deptry", "--no-ansi", "recovery_ops", "events"],
            "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run", "--data", data],
        }
        failed = []
        for name, words in checks.items():
            done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(f"{name}: {'ok' if done.returncode == 0 else 'failed'}", flush=True)
            if done.returncode:
                failed.append(name)
                print(done.stdout, flush=True)
    sys.exit(1 if failed else 0)


def prepare_integrations() -> None:
    """Make, beside `.venv`, the environment that the integrations are tested in. Where that fails, say so and go on.

    The tests name at their end what they could not have; in CI they fail.
    """
    if (LOCKS / "integrations.txt").exists() and not has_beside("integrations", INTEGRATIONS):
        print("The integrations are not tested.", flush=True)


def integrations_stamp() -> Path:
    """The file that is there while the integrations' environment holds its lock, for this Python."""
    return _stamp_beside("integrations", INTEGRATIONS)


def has_beside(name: str, folder: Path) -> bool:
    """Make, where it is missing, an environment beside `.venv` that holds a lock. False, and told why: not had."""
    stamp = _stamp_beside(name, folder)
    if stamp.exists():
        return True
    try:
        with _alone():
            if not stamp.exists():
                _make(folder)
                _install(LOCKS / f"{name}.txt", folder / "bin" / "python")
                stamp.touch()
    except CannotPrepare as error:
        print(error, flush=True)
        return False
    return True


def _stamp_beside(name: str, folder: Path) -> Path:
    digest = hashlib.sha256((LOCKS / f"{name}.txt").read_bytes() + sys.version.encode()).hexdigest()[:16]
    return folder / f".recovery-ops-{name}-{digest}"


def _is_ours() -> bool:
    return Path(sys.prefix).resolve() == VENV.resolve()


def _stamp(lock: Path) -> Path:
    # Beside the packages it speaks of: after an update of Python they are elsewhere, and it is gone with them.
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    return Path(sysconfig.get_path("purelib")) / f".recovery-ops-{lock.stem}-{digest}"


def _fits(lock: Path) -> bool:
    # What the tests need holds all that the server needs; a test compares the two.
    return _stamp(lock).exists() or _stamp(LOCKS / "test.txt").exists()


def _fit(lock: Path) -> None:
    if _fits(lock):
        return
    with _alone():
        if _fits(lock):
            return
        _install(lock, Path(sys.executable))
        for old in _stamp(lock).parent.glob(".recovery-ops-*"):
            old.unlink()
        _stamp(lock).touch()


def _add_command() -> None:
    """Put `recovery-ops`, the command of operators, beside the environment's Python, where it is missing."""
    path = VENV / "bin" / "recovery-ops"
    if path.exists():
        return
    # A shebang takes neither a blank nor more than 127 characters, so the shell starts Python, as pip does it.
    script = f"""#!/bin/sh
'''exec' "{VENV.resolve() / "bin" / "python"}" "$0" "$@"
' '''
import sys

sys.path.insert(0, {str(VENV.resolve().parent)!r})

from recovery_ops.cli import main

sys.exit(main())
"""
    draft = path.with_name(f".recovery-ops-{os.getpid()}")
    with suppress(OSError):
        draft.write_text(script, encoding="utf-8")
        draft.chmod(0o755)
        draft.rename(path)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one start at a time change `.venv`. The kernel lets the lock go however we end."""
    with Path(__file__).open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another start is preparing .venv; waiting for it …", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            pass  # some network file systems cannot lock; then two first starts must not be simultaneous
        yield


def _make(folder: Path) -> None:
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise CannotPrepare(
            f"This Python ({sys.executable}) comes without its venv module. "
            f"On Debian and Ubuntu: apt install python{version}-venv. Then run the same command again."
        )
    print(f"Making {folder} …", flush=True)
    command = [sys.executable, "-m", "venv", "--clear", str(folder)]
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)  # half an environment would be taken for a whole one
        raise CannotPrepare(f"{result.stdout.strip()}\n\n{explain(result.stdout)}")


def _install(lock: Path, python: Path) -> None:
    names = [line.split("==")[0] for line in lock.read_text().splitlines() if "==" in line]
    print(f"Installing {len(names)} packages from {lock.relative_to(ROOT)} (this once) …", flush=True)
    if python == Path(sys.executable) and find_spec("pip") is None:
        # an earlier start was killed between making .venv and giving it pip
        subprocess.run([sys.executable, "-m", "ensurepip"], check=False, stdout=subprocess.DEVNULL)
    # Of a package with extras that another one asks for, pip takes the newest, and then misses its hash: pypa/pip#9644.
    # A lock names everything, so nothing is looked for.
    options = ["--no-deps", "--require-hashes", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command = [str(python), "-m", "pip", "install", *options, "-r", str(lock)]
    output: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout or ():
            output.append(line)
            _show_progress(line, output, len(names))
    if process.returncode != 0:
        raise CannotPrepare(f"\n{''.join(output[-12:]).strip()}\n\n{explain(''.join(output))}")


def _show_progress(line: str, output: list[str], total: int) -> None:
    fresh_line = "\r\033[K" if sys.stdout.isatty() else ""
    if "Retrying (Retry(" in line:
        print(f"{fresh_line}  the package index does not answer, trying again …", flush=True)
    elif line.startswith("Installing collected"):
        print(f"{fresh_line}  downloaded; unpacking …", flush=True)
    elif fresh_line and line.startswith(("Collecting ", "Requirement already")):
        done = sum(1 for earlier in output if earlier.startswith(("Collecting ", "Requirement already")))
        print(f"{fresh_line}  {done} of {total}", end="", flush=True)


def explain(output: str) -> str:
    """Say what a failed installation needs. pip gives no codes, so this reads its words."""
    causes = (cause for signs, cause in _CAUSES.items() if any(sign in output for sign in signs))
    return (
        f"{next(causes, 'The lines above are from pip')}. Then run the same command again; nothing is left half done."
    )


def _say_what_is_missing(lock: Path) -> None:
    """An active environment belongs to its owner: look, change nothing. Versions are the owner's business too."""
    pins = [line for line in lock.read_text().splitlines() if "==" in line and ";" not in line]
    here = {_plain(distribution.metadata["Name"] or "") for distribution in metadata.distributions()}
    missing = [name for name in (pin.split("==")[0] for pin in pins) if _plain(name) not in here]
    if missing:
        raise CannotPrepare(
            f"The active environment ({sys.prefix}) lacks {', '.join(missing)}. Either\n"
            f"  {sys.executable} -m pip install --no-deps --require-hashes -r {lock}\n"
            f"or leave it (deactivate) and run the same command again: it then makes {VENV}."
        )


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
