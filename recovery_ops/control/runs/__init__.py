"""Runs of agents: lists, pages, aborts and retries."""
