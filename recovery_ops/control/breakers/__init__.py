"""Breakers as people see and steer them: overrides, resets, probes, ramps, the quorum and load shedding."""
