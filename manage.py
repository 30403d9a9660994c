#!/usr/bin/env python3
"""Runs the commands of Recovery Ops; the first one makes `.venv`."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
