"""The way from a bare Python to a running command, in small copies of the checkout, without a network.

Each copy has a lock of one package, a wheel made here, which is called Django and prints who runs it.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from recovery_ops.server import bootstrap
from tests.support.processes import ROOT, Running

BARE_PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
DJANGO = """
import json, os, sys
def execute_from_command_line(argv):
    print(json.dumps({"prefix": sys.prefix, "argv": argv[1:], "data": os.environ.get("RECOVERY_OPS_DATA")}))
"""


class Checkout:
    """A copy of what `manage.py` needs, its packages beside it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        self.index = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        (self.root / "recovery_ops" / "locks").mkdir(parents=True)
        shutil.copy(ROOT / "manage.py", self.root)
        (self.root / "recovery_ops" / "server").mkdir()
        for name in ("__init__", "server/__init__", "server/bootstrap", "server/environment", "server/running_servers"):
            shutil.copy(ROOT / "recovery_ops" / f"{name}.py", self.root / "recovery_ops" / f"{name}.py")
        self.lock("1.0")

    def lock(self, version: str) -> None:
        """Publish this version of the package and pin both locks to it."""
        wheel = make_wheel(self.wheels, version)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        for name in ("server", "test"):
            (self.root / f"recovery_ops/locks/{name}.txt").write_text(
                f"django=={version} \\\n    --hash=sha256:{digest}\n"
            )

    def run(
        self,
        *words: str,
        python: Path = BARE_PYTHON,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Running:
        """Start `manage.py` with these words; its packages come from beside it, whatever pip is configured to do."""
        command = [str(python), str(self.root / "manage.py"), *words]
        return Running(command, env={**self.index, **(env or {})}, folder=folder or self.root)

    def start(self, *words: str) -> Running:
        """The same, to its end, which has to be a good one."""
        with self.run(*words) as running:
            assert running.wait(timeout_s=240) == 0, running.text
        return running


def make_wheel(folder: Path, version: str, name: str = "django", needs: str = "") -> Path:
    """Write a package as a wheel, by hand."""
    info = f"{name}-{version}.dist-info"
    asked = f"Requires-Dist: {needs}\n" if needs else ""
    files = {
        f"{name}/__init__.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: more\n{asked}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if name == "django":
        files |= {"django/core/__init__.py": "", "django/core/management.py": DJANGO}
    record = [f"{name},sha256={digest(text)},{len(text)}" for name, text in files.items()] + [f"{info}/RECORD,,"]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": "\n".join(record)}.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # without a date: the same version is the same bytes
    return path


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def spoken(running: Running) -> dict[str, object]:
    """What the package said: its last line."""
    found: dict[str, object] = json.loads(running.text.splitlines()[-1])
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout whose environment is made, for tests that leave it as it is."""
    checkout = Checkout(tmp_path_factory.mktemp("made"))
    checkout.start("check")
    return checkout


def test_the_first_start_makes_the_environment_and_the_second_only_uses_it(checkout: Checkout) -> None:
    first = checkout.start("check", "now")
    assert "Installing 1 packages from recovery_ops/locks/server.txt" in first.text
    assert spoken(first) == {"prefix": str(checkout.root / ".venv"), "argv": ["check", "now"], "data": None}
    assert checkout.start("check").text.count("\n") == 1


@pytest.mark.full
def test_a_new_lock_installs_again(checkout: Checkout) -> None:
    checkout.start("check")
    checkout.lock("2.0")
    assert "Installing" in checkout.start("check").text
    installed = (checkout.root / ".venv").glob("lib/python*/site-packages/django-*.dist-info")
    assert [path.name for path in installed] == ["django-2.0.dist-info"]
    checkout.lock("1.0")  # back to an older commit: what is installed counts, not what once was
    assert "Installing" in checkout.start("check").text


@pytest.mark.full
def test_a_newer_version_of_what_is_locked_changes_nothing(checkout: Checkout) -> None:
    """Also where another package asks for it with extras, of which pip looks past the lock: pypa/pip#9644."""
    wheels = [
        make_wheel(checkout.wheels, "1.0", "asking", needs="asked[more]>=1"),
        make_wheel(checkout.wheels, "1.0", "asked"),
        make_wheel(checkout.wheels, "1.0"),
    ]
    make_wheel(checkout.wheels, "1.1", "asked")
    pins = [
        f"{path.name.partition('-')[0]}==1.0 \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in wheels
    ]
    (checkout.root / "recovery_ops" / "locks" / "server.txt").write_text("".join(pins))
    assert "Installing 3 packages" in checkout.start("check").text
    installed = (checkout.root / ".venv").glob("lib/python*/site-packages/ask*.dist-info")
    assert sorted(path.name for path in installed) == ["asked-1.0.dist-info", "asking-1.0.dist-info"]


def test_it_runs_from_anywhere(made: Checkout, tmp_path: Path) -> None:
    with made.run("check", folder=tmp_path) as running:
        assert running.wait() == 0
    assert spoken(running)["prefix"] == str(made.root / ".venv")


def test_environment_has_the_operators_command(made: Checkout, tmp_path: Path) -> None:
    (made.root / "recovery_ops" / "cli.py").write_text("def main():\n    return 7\n")
    path = os.pathsep.join([str(made.root / ".venv" / "bin"), os.environ["PATH"]])
    assert subprocess.run(["recovery-ops"], env={"PATH": path}, cwd=tmp_path, check=False).returncode == 7


@pytest.mark.full
def test_the_integrations_have_an_environment_of_their_own(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = checkout.root / "recovery_ops" / "locks" / "integrations.txt"
    shutil.copy(lock.with_name("server.txt"), lock)
    monkeypatch.setattr(bootstrap, "LOCKS", lock.parent)
    monkeypatch.setattr(bootstrap, "ROOT", checkout.root)
    monkeypatch.setattr(bootstrap, "INTEGRATIONS", checkout.root / ".venv-integrations")
    for name, value in checkout.index.items():
        monkeypatch.setenv(name, value)
    bootstrap.prepare_integrations()
    assert bootstrap.integrations_stamp().exists()
    assert len(list((checkout.root / ".venv-integrations").glob("lib/python*/site-packages/django-1.0.dist-info"))) == 1
    capsys.readouterr()
    bootstrap.prepare_integrations()
    assert capsys.readouterr().out == ""
    lock.write_text(f"django==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    bootstrap.prepare_integrations()  # what cannot be had is said, and everything else is tested
    said = capsys.readouterr().out
    assert "A package is not the one that the lock names" in said
    assert said.endswith("The integrations are not tested.\n")
    assert not bootstrap.integrations_stamp().exists()


@pytest.mark.full
def test_two_first_starts_at_once_install_once(checkout: Checkout) -> None:
    with checkout.run("check") as one, checkout.run("check") as other:
        assert (one.wait(timeout_s=240), other.wait(timeout_s=240)) == (0, 0)
    assert (one.text + other.text).count("Installing 1 packages") == 1
    assert spoken(one) == spoken(other)


@pytest.mark.full
def test_a_start_that_was_killed_half_way_is_made_good(checkout: Checkout) -> None:
    venv.create(checkout.root / ".venv", with_pip=False, symlinks=True)
    assert spoken(checkout.start("check"))["prefix"] == str(checkout.root / ".venv")


def test_an_environment_that_is_none_is_told(checkout: Checkout) -> None:
    (checkout.root / ".venv" / "bin").mkdir(parents=True)
    (checkout.root / ".venv" / "bin" / "python").symlink_to(BARE_PYTHON)
    with checkout.run("check") as running:
        assert running.wait() == 1
    assert running.text == f"{checkout.root}/.venv is damaged. Remove it and run the same command again.\n"


def test_an_active_environment_is_left_alone(checkout: Checkout, tmp_path: Path) -> None:
    other = tmp_path / "other"
    venv.create(other, with_pip=False, symlinks=True)
    with checkout.run("check", python=other / "bin" / "python") as running:
        assert running.wait() == 1
    assert f"The active environment ({other}) lacks django." in running.text
    locks = f"{checkout.root}/recovery_ops/locks/"
    assert f"{other}/bin/python -m pip install --no-deps --require-hashes -r {locks}" in running.text
    assert not (checkout.root / ".venv").exists()


def test_an_active_environment_that_has_everything_is_used(checkout: Checkout, tmp_path: Path) -> None:
    other = tmp_path / "other"
    venv.create(other, with_pip=False, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    with zipfile.ZipFile(next(checkout.wheels.iterdir())) as archive:
        archive.extractall(other / "lib" / version / "site-packages")
    with checkout.run("check", python=other / "bin" / "python") as running:
        assert running.wait() == 0, running.text
    assert spoken(running)["prefix"] == str(other)


@pytest.mark.full
def test_an_index_that_cannot_be_reached_is_told(checkout: Checkout) -> None:
    away = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "1"}
    with checkout.run("check", env=away) as running:
        assert running.wait(timeout_s=240) == 1
    assert "The package index cannot be reached: check the network" in running.text
    assert "Traceback" not in running.text


@pytest.mark.full
def test_another_package_than_the_locked_one_is_refused(checkout: Checkout) -> None:
    lock = checkout.root / "recovery_ops/locks/server.txt"
    lock.write_text(f"django==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    with checkout.run("check") as running:
        assert running.wait(timeout_s=240) == 1
    assert "A package is not the one that the lock names" in running.text


def test_a_python_without_venv_is_told_what_to_install(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['ensurepip'] = None")
    with checkout.run("check", env={"PYTHONPATH": str(tmp_path)}) as running:
        assert running.wait() == 1
    assert f"apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in running.text
    assert not (checkout.root / ".venv").exists()


def test_a_python_that_is_too_old_is_told() -> None:
    pretend = "import runpy, sys; sys.version_info = (3, 8, 1); runpy.run_path('manage.py', run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", pretend], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert "Recovery Ops needs Python 3.11 or newer" in result.stderr
    assert "is 3.8." in result.stderr


def test_an_old_python_can_read_as_far_as_being_told() -> None:
    ast.parse((ROOT / "manage.py").read_text(), feature_version=(3, 4))


def test_the_data_directory_reaches_the_settings(made: Checkout, tmp_path: Path) -> None:
    with made.run("up", "--data", "here", "--port=1", folder=tmp_path) as running:
        assert running.wait() == 0
    assert spoken(running)["data"] == str(tmp_path / "here")
    assert spoken(running)["argv"] == ["up", "--port=1"]


@pytest.mark.parametrize(
    ("argv", "rest"),
    [
        (["m", "x", "--data=/d", "y"], ["m", "x", "y"]),
        (["m", "x", "--", "--data", "/d"], ["m", "x", "--", "--data", "/d"]),
        (["m", "x", "--database", "other"], ["m", "x", "--database", "other"]),
    ],
)
def test_only_the_data_option_is_taken(argv: list[str], rest: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_DATA", "/before")
    assert bootstrap.take_data_option(argv) == rest
    assert os.environ["RECOVERY_OPS_DATA"] == ("/d" if len(rest) < len(argv) else "/before")


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device: '/x'", "The disk is full"),
        ("SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))", "which certificate to trust"),
        ("WARNING: Retrying (Retry(total=4 ...\nERROR: No matching distribution found for x", "cannot be reached"),
        ("ERROR: No matching distribution found for x==1", "no build of a package for this Python"),
        ("ERROR: Permission denied: '/x/.venv'", "may not write there"),
        ("ERROR: something new", "The lines above are from pip"),
    ],
)
def test_the_reason_of_a_failed_installation_is_named(output: str, wanted: str) -> None:
    assert wanted in bootstrap.explain(output)


def test_help_of_tests_lists_tiers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bootstrap.run_tests(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code is None
    assert all(word in said for word in ("PATH", "--quick", "--all", "--slice", "pytest --help"))
