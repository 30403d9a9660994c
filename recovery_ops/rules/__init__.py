"""Given what happened, what must happen next: pure rules. No clock, no chance, no I/O."""
