"""A demonstration: real agents with the real runtime, against a provider that really fails, on a script."""
