"""Measurements: figures beside the same work without us, in one run on one machine, so that ratios mean something."""
