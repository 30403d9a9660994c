"""Requests that wait for a second approver."""
