"""Runs: what became of one task of an agent, told from the facts that carry its id."""
