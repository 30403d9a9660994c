"""What every test may ask for: a running server, a browser, PostgreSQL, Redis; and the closing word on what is missing.

A service that this machine lacks skips its tests, and the summary names it. Where CI=true it fails them instead.
"""

from __future__ import annotations

import os
import shutil
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

from recovery_ops.cycles import look_for_cycles_less_often
from tests.support import databases, services, stores
from tests.support.processes import Server

_SKIPPED = "not on this machine: "

# A loaded machine is slow now and then; that is not what examples are about.
hypothesis.settings.register_profile("house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("house")


look_for_cycles_less_often()
"""What collecting eleven thousand tests makes is kept anyway: looking for cycles in it took a fifth of short tests."""


_OF_WORDS_ALONE = {"rules", "wire", "docs"}
"""Folders whose tests meet no process, no socket and no clock: there another try could only hide a fault."""


_LONGEST = "drill"


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before xdist puts the groups into the names, and after all
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Keep together what shares a server or a browser, and begin with what takes long: begun last, it would go on
    alone while the other cores stand still. In CI a test that meets the world may try twice more; pytest's summary then
    counts it as rerun.
    """
    for item in items:
        if _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if os.environ.get("CI") == "true":
        _let_try_again(items)
    yield
    if hasattr(config, "workerinput"):
        sizes = Counter(map(_group_of, items))
        groups = {name: (name != _LONGEST, not name, -size, name) for name, size in sizes.items()}
        items.sort(key=lambda item: groups[_group_of(item)])


def _let_try_again(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] not in _OF_WORDS_ALONE:
            # What takes minutes tries once more: twice would hold up all that stands behind it.
            item.add_marker(pytest.mark.flaky(reruns=1 if _group_of(item) == _LONGEST else 2))


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what could not be had, just above pytest's own summary line."""
    reasons = (report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    missing = Counter(reason.partition(_SKIPPED)[2] for reason in reasons if _SKIPPED in reason)
    for what, count in sorted(missing.items()):
        terminalreporter.write_line(f"{count} tests skipped, {_SKIPPED}{what}", yellow=True)


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
