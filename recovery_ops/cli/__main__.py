"""`python -m recovery_ops.cli`."""

from __future__ import annotations

import sys

from recovery_ops.cli import main

sys.exit(main())
