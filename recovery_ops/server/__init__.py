"""The console's process: its environment, start, worker and scheduler, health and static files."""
