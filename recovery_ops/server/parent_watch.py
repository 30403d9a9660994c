"""Ends a web process whose master is gone.

uvicorn's processes do not notice that theirs was killed. They would go on with the old code and keep the port, so that
no new master could listen there; where a unit kills the whole group, this has nothing to do.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def end_with_parent() -> None:
    """From now on: end as if told to, with what was begun finished, as soon as the process that started us is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return  # nobody's child: started by a shell, a unit, or as `manage.py up`

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="follow the master", daemon=True).start()
