"""The product's settings as the tests run them: a data directory of their own, and cheap password hashes."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import Any

_data = tempfile.mkdtemp(prefix="recovery-ops-tests-")
atexit.register(shutil.rmtree, _data, ignore_errors=True)
# What the developer's shell says about a server of theirs must not reach the tests.
for _name in [name for name in os.environ if name.startswith("RECOVERY_OPS_") and "_TEST_" not in name]:
    del os.environ[_name]
os.environ["RECOVERY_OPS_DATA"] = _data
os.environ["RECOVERY_OPS_SECRET_KEY"] = "only-for-tests-" * 4

from recovery_ops.settings import *  # noqa: E402, F403  # the lines above decide what it reads
from recovery_ops.settings import DATABASES  # noqa: E402  # named again for the type checker

# A file, so that the threads of a live server see the test's database; xdist adds its worker's name.
DATABASES["default"]["TEST"] = {"NAME": os.path.join(_data, "test.sqlite3")}
# A test's process may die with all that it wrote. Servers that tests start keep what they acknowledge.
_options: dict[str, Any] = DATABASES["default"]["OPTIONS"]  # type: ignore[assignment]  # of SQLite, as it is here
_options["init_command"] += ";PRAGMA synchronous=OFF"
OTLP_READS_BESIDE = False  # tests of it say so
NOTIFY_LOOK_UP_S = 0.0  # no test asks a resolver
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
