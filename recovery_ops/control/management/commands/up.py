"""`manage.py up`: from a checkout to a running console, with one thing said at each step."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.db import DatabaseError, connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from events.failures.asking import last_number
from events.models import Fact
from events.moments import to_us
from events.store.schema import check_schema
from recovery_ops import __version__
from recovery_ops.control.access.first_account import FILE_NAME, SignIn, ensure_first_account
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.demo_fleet import demonstration_fleet
from recovery_ops.control.demonstration.companion import DemonstrationCompanion
from recovery_ops.control.demonstration.services import may_start
from recovery_ops.server.data_directory_lock import Occupied, occupy
from recovery_ops.server.running_servers import registered
from recovery_ops.server.supervisor import CannotListen, Companion, EmbeddedCelery, listen, serve

_WILDCARDS = {"0.0.0.0", "::", ""}  # noqa: S104  # compared with, not bound to


class Command(BaseCommand):
    help = "Prepare the database and run the console, worker, scheduler and demonstration in one process."
    requires_system_checks = ()  # the settings are ours; a second of start-up is the user's

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.HOST, help="address to listen on (RECOVERY_OPS_HOST)")
        parser.add_argument("--port", type=_port, default=settings.PORT, help="port; 0: a free one (RECOVERY_OPS_PORT)")
        parser.add_argument(
            "--otlp-port",
            type=_port,
            default=settings.OTLP_PORT,
            help="second port, for events alone: 4318 (RECOVERY_OPS_OTLP_PORT)",
        )
        # `manage.py` takes --data out before settings are read; it stands here for the sake of --help.
        parser.add_argument("--data", metavar="DIR", help="data directory (RECOVERY_OPS_DATA)")
        parser.add_argument(
            "--environment",
            default=settings.DEMO_ENVIRONMENT,
            help="environment of the demonstration (%(default)s)",
        )
        parser.add_argument(
            "--no-demo",
            action="store_true",
            default=settings.NO_DEMO,
            help="start without the demonstration (RECOVERY_OPS_NO_DEMO=1)",
        )
        parser.add_argument("--demo", action="store_true", help="start a removed demonstration again")

    def handle(self, *args: Any, **options: Any) -> None:
        self._is_quiet = options["verbosity"] == 0
        self._is_ending = threading.Event()
        data: Path = settings.DATA_DIR
        self._say(f"Recovery Ops {__version__}")
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            with ExitStack() as stack:
                stack.enter_context(occupy(data, f"process {os.getpid()}"))
                stack.enter_context(registered(data))
                listeners = [stack.enter_context(listen(options["host"], options["port"]))]
                if options["otlp_port"] is not None:
                    listeners.append(stack.enter_context(listen(options["host"], options["otlp_port"])))
                    settings.OTLP_PORT = listeners[1].getsockname()[1]
                code = self._run(listeners, data, options)
        except (Occupied, CannotListen) as error:
            raise CommandError(str(error)) from None
        except PermissionError as error:
            raise CommandError(
                f"Cannot keep {error.filename}: {error.strerror}. Give another place with --data."
            ) from None
        _leave(code)

    def _run(self, listeners: list[socket.socket], data: Path, options: dict[str, Any]) -> int:
        url = _url(options["host"], listeners[0])
        if "RECOVERY_OPS_PUBLIC_URL" not in os.environ:
            settings.PUBLIC_URL = url
        self._migrate()
        sign_in = ensure_first_account(data)
        known = last_number()
        companions: list[Companion] = []
        environment = options["environment"]
        self._has_demo = not options["no_demo"] and may_start(environment, is_wanted=options["demo"])
        if self._has_demo:
            fleet = demonstration_fleet(url, data=data, environment=environment, say=self._say_of_agents)
            companions.append(DemonstrationCompanion(fleet, environment=environment, folder=data / "demo"))
        if settings.EMBEDDED:
            companions.append(EmbeddedCelery())
        _admit(options["host"])
        connections.close_all()

        def announce() -> None:
            self._announce(url, sign_in, options)
            if len(listeners) > 1:
                self._say(f"  facts     {_url(options['host'], listeners[1])}/v1/logs, /v1/traces")
            self._say("Ctrl-C ends everything.")
            threading.Thread(target=self._await_facts, args=(known,), name="first-facts", daemon=True).start()

        return serve(*listeners, on_started=announce, on_ending=self._announce_end, companions=companions)

    def _announce_end(self) -> None:
        self._is_ending.set()
        # A few seconds may pass: agents hand in their last facts, and tasks finish.
        self._say("\nEnding: the last facts come in. Ctrl-C again cuts it off.")

    def _say(self, text: str) -> None:
        if not self._is_quiet:
            print(text, flush=True)

    def _say_of_agents(self, text: str) -> None:
        self._say(f"  agents    {text}")

    def _migrate(self) -> None:
        try:
            check_schema()
            executor = MigrationExecutor(connection)
            plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
            if plan:
                self._say(f"  store     applying {len(plan)} migrations …")
                call_command("migrate", interactive=False, verbosity=0)
        except DatabaseError as error:
            reason = str(error).strip()
            raise CommandError(f"Cannot use the database: {reason}\nCheck RECOVERY_OPS_DATABASE_URL.") from None
        name = connection.settings_dict["NAME"]
        self._say(f"  store     {name if connection.vendor == 'sqlite' else f'PostgreSQL, database {name}'}")

    def _announce(self, url: str, sign_in: SignIn | None, options: dict[str, Any]) -> None:
        print(f"  console   {url}/", flush=True)
        if sign_in is not None:
            kept = settings.DATA_DIR / FILE_NAME
            print(f"  sign in   {sign_in.name}  {sign_in.password}   (kept in {kept} until it is changed)", flush=True)
        if self._has_demo:
            self._say(f"  demo      {url}/?environment={quote(options['environment'])}")
        elif not options["no_demo"]:
            self._say("  demo      removed; `up --demo` starts it again")
        if options["host"] in _WILDCARDS:
            self._say(f"            also as {socket.gethostname()}; for other names set RECOVERY_OPS_HOSTS")
        self._say_of_agents("the demonstration fleet starts" if self._has_demo else "none yet")

    def _await_facts(self, known: int) -> None:
        """Say when a fact newer than `known` is stored that was received since the start, which generated ones are not:
        the sign that some agent is connected.
        """
        is_connected, started_us = False, to_us(timezone.now())
        while not is_connected and not self._is_ending.wait(0.5):
            with suppress(DatabaseError):  # busy just now; there is a next time
                newest = Fact.objects.order_by("-pk").values_list("pk", "received_us").first()
                is_connected = newest is not None and newest[0] > known and newest[1] >= started_us
        connections.close_all()
        if is_connected:
            self._say_of_agents("the first facts are in")


def _port(text: str) -> int:
    port = parse_number(text)
    if port is not None and port <= 65535:
        return port
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")


def _url(host: str, listener: socket.socket) -> str:
    """Return the address to type: a wildcard is not one."""
    name = "127.0.0.1" if host in _WILDCARDS else host
    return f"http://{_bracketed(name)}:{listener.getsockname()[1]}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _admit(host: str) -> None:
    """Answer to the name we listen on; RECOVERY_OPS_HOSTS, where given, is the whole list."""
    if "RECOVERY_OPS_HOSTS" not in os.environ:
        settings.ALLOWED_HOSTS.append(socket.gethostname() if host in _WILDCARDS else _bracketed(host))


def _leave(code: int) -> None:
    """End, even where a request or a task still holds a thread: Python would wait for it for ever."""
    connections.close_all()
    deadline = time.monotonic() + 1
    others = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    for thread in others:
        thread.join(max(0.0, deadline - time.monotonic()))
    sys.stdout.flush()
    sys.stderr.flush()
    if any(thread.is_alive() for thread in others):
        os._exit(code)
    if code:
        sys.exit(code)
