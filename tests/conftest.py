"""What every test may ask for: a running server, a browser, PostgreSQL, Redis; and the closing word on what is missing.

A service that this machine lacks skips its tests, and the summary names it. Where CI=true it fails them instead.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import hypothesis
import pytest
import redis
from django.db import connection
from django.test import TransactionTestCase
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pytest_django import DjangoDbBlocker

from recovery_ops.server.garbage_collection import look_for_cycles_less_often
from tests import tiers
from tests.support import closing, databases, services, stores
from tests.support.processes import Server

_SKIPPED = "not on this machine: "
_STARTED = time.monotonic()

# A loaded machine is slow now and then; that is not what examples are about.
for _profile, _examples in (("default", 20), ("all", 200)):
    hypothesis.settings.register_profile(
        _profile,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("default")


look_for_cycles_less_often()
"""What collecting eleven thousand tests makes is kept anyway: looking for cycles in it took a fifth of short tests."""


_TRIED_TWICE = ("tests/browser", "tests/flows")
"""A test here meets several processes or a browser: it has a second try, and one that needs it is reported."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `manage.py test` passes on."""
    group = parser.getgroup("tiers", "which tests run (tests/tiers.py)")
    group.addoption("--tier", choices=["quick", "default", "all"], help="tests of this tier and those before it")
    group.addoption("--slice", default="", help="slices of the full tier, with commas between; nothing else runs")


def pytest_configure(config: pytest.Config) -> None:
    """More examples where everything runs."""
    for tier in tiers.TIERS:
        config.addinivalue_line("markers", f"{tier}: a test of this tier, whatever its folder")
    if config.option.tier == "all" or config.option.slice:
        hypothesis.settings.load_profile("all")
    unknown = set(_slices(config)) - set(tiers.SLICES)
    if unknown:
        raise pytest.UsageError(f"no such slice: {', '.join(sorted(unknown))}; there are {', '.join(tiers.SLICES)}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file that has nothing for this run: half of a quick run would be imports."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    wanted = _wanted(config)
    if tiers.place_of(collection_path) in wanted:
        return None
    text = collection_path.read_text()
    return None if any(f"pytest.mark.{tier}" in text for tier in wanted) else True


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before xdist puts the groups into the names, and after all
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Keep the tests of this run; keep together what shares a server or a browser, and begin with what takes long:
    begun last, it would go on alone while the other cores stand still.
    """
    _keep_wanted(config, items)
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if any(
            name.startswith("engine") and value == "sqlite" for name, value in params.items()
        ):  # before another fixture asks for a database with rollback
            item.add_marker(pytest.mark.django_db(transaction=True))
        if _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        if _path_of(item).startswith(_TRIED_TWICE):
            item.add_marker(pytest.mark.flaky(reruns=1))
    yield
    if hasattr(config, "workerinput"):
        sizes = Counter(map(_group_of, items))
        groups = {name: (name not in _LONGEST, not name, -size, name) for name, size in sizes.items()}
        items.sort(key=lambda item: groups[_group_of(item)])


_LONGEST = {"drill", "tests/browser/test_axe.py"}


def _keep_wanted(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted, slices = _wanted(config), _slices(config)
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        tier = tiers.tier_of(item)
        part = tiers.slice_of(_path_of(item)) if tier == "full" else ""
        item.user_properties.append(("tier", tier))
        (kept if tier in wanted and (not slices or part in slices) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _wanted(config: pytest.Config) -> tuple[str, ...]:
    """The tiers of this run. A path alone means all of its tests."""
    if config.option.slice:
        return ("full",)
    return tiers.TIERS if config.option.tier in (None, "all") else tiers.wanted_tiers(config.option.tier)


def _slices(config: pytest.Config) -> list[str]:
    return [name for name in config.option.slice.split(",") if name]


def _path_of(item: pytest.Item) -> str:
    return item.path.relative_to(tiers.ROOT).as_posix()


def _group_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave alone what was collected."""
    look_for_cycles_less_often()


def _shares_with_its_module(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or item.get_closest_marker("xdist_group"):
        return False
    return any(one.scope == "module" for found in item._fixtureinfo.name2fixturedefs.values() for one in found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what could not be had, what needed a second try, and what each tier took, above pytest's summary line."""
    reasons = (report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    missing = Counter(reason.partition(_SKIPPED)[2] for reason in reasons if _SKIPPED in reason)
    for what, count in sorted(missing.items()):
        terminalreporter.write_line(f"{count} tests skipped, {_SKIPPED}{what}", yellow=True)
    for nodeid in sorted({report.nodeid for report in terminalreporter.stats.get("rerun", ())}):
        terminalreporter.write_line(f"defect: {nodeid} failed and was run again", red=True)
    took = time.monotonic() - _STARTED
    for line, is_over in closing.lines(terminalreporter.stats, config.option.tier or "", took):
        terminalreporter.write_line(line, red=is_over)


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> None:
    """A database of this process's own: a copy of the template instead of migrations."""
    with django_db_blocker.unblock():
        shutil.copy(databases.sqlite_template(), str(connection.settings_dict["TEST"]["NAME"]))
        connection.settings_dict["NAME"] = connection.settings_dict["TEST"]["NAME"]
        # Django empties all 110 tables after each test that commits, and tells every app that it migrated.
        TransactionTestCase._fixture_teardown = lambda _: databases.empty_written_tables(connection)  # type: ignore[attr-defined]


@contextmanager
def _or_skip() -> Iterator[None]:
    try:
        yield
    except services.Missing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{_SKIPPED}{missing}", pytrace=False)
        pytest.skip(f"{_SKIPPED}{missing}")


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start `manage.py up --no-demo` on a free port, by default on a directory of this test; killed at its end."""
    with ExitStack() as stack:

        def start(*options: str, data: Path = tmp_path / "data", **rest: object) -> Server:
            return stack.enter_context(Server(data, *options, **rest))  # type: ignore[arg-type]  # passed through

        yield start


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a browser."""
    with _or_skip():
        return services.browser()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A browser for one module: Playwright's loop runs in this thread, and no other test may meet it."""
    # Django sees that loop and would refuse the test's own queries.
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        expect.set_options(timeout=20_000)
        launched = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without a past."""
    with browser.new_context() as context:
        yield context.new_page()


@pytest.fixture(scope="session")
def nginx() -> str:
    """The path of nginx."""
    with _or_skip():
        return services.nginx()


@pytest.fixture(scope="session")
def postgres_server(django_db_blocker: DjangoDbBlocker) -> str:
    """The URL of a PostgreSQL in which tests may make databases."""
    with _or_skip(), django_db_blocker.unblock():
        return stores.server()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database of this test's own."""
    name = f"test_{uuid4().hex}"
    yield stores.create_database(postgres_server, name)
    stores.drop_database(postgres_server, name)


@pytest.fixture
def migrated_postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a PostgreSQL database of this test's own: migrated, and otherwise empty."""
    name = f"test_{uuid4().hex}"
    yield stores.create_database(postgres_server, name, template=stores.template_name())
    stores.drop_database(postgres_server, name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a Redis that tests may empty."""
    with ExitStack() as stack:
        with _or_skip():
            url = stack.enter_context(services.redis_server())
        yield url


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of an empty Redis."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server
