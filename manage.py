#!/usr/bin/env python3
"""Runs the commands of Recovery Ops. The first one makes `.venv` from a lock, unless a virtual environment is active.

Plain enough for a Python that is too old for the rest: it has to get as far as being told.
"""

import io
import os
import shutil
import sys


def main() -> None:
    if sys.version_info < (3, 11):
        newer = [name for name in ("python3.14", "python3.13", "python3.12", "python3.11") if shutil.which(name)]
        hint = "Run %s manage.py instead." % newer[0] if newer else "Install a newer one and run it with that."
        sys.exit(
            "Recovery Ops needs Python 3.11 or newer; %s is %d.%d. %s" % (sys.executable, *sys.version_info[:2], hint)
        )
    if os.name == "nt":
        sys.exit("Recovery Ops runs on Linux and macOS. On Windows, run it in WSL.")

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "…" gets "?", not a traceback
    from recovery_ops.server import bootstrap

    try:
        bootstrap.prepare(sys.argv)
    except bootstrap.CannotPrepare as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    if sys.argv[1:2] == ["test"]:
        bootstrap.run_tests(sys.argv[2:])
    if sys.argv[1:2] == ["lint"]:
        bootstrap.run_lint(sys.argv[2:])
    if sys.argv[1:2] == ["drill"]:
        from recovery_ops.drill.__main__ import main as do_harm

        do_harm(sys.argv[2:])
        return
    if sys.argv[1:2] == ["bench"]:
        from recovery_ops.bench.__main__ import main as measure

        measure(sys.argv[2:])
        return
    _run_django_command()


def _run_django_command() -> None:
    from django.core.management import execute_from_command_line

    from recovery_ops.server import bootstrap, running_servers
    from recovery_ops.server.environment import Misconfigured

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    try:
        argv = bootstrap.take_data_option(sys.argv)
        running_servers.choose_data(argv, default=bootstrap.ROOT / ".data")
        execute_from_command_line(argv)
    except KeyboardInterrupt:
        sys.exit(130)
    except Misconfigured as error:
        sys.exit("Cannot start: %s." % error)
    except running_servers.NoData as error:
        sys.exit(str(error))
    except Exception as error:
        reason = running_servers.explain_database_error(error)
        if not reason or "--traceback" in sys.argv:
            raise
        sys.exit(reason)


if __name__ == "__main__":
    main()
