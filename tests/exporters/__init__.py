"""Real exporters of other versions and languages, each in an environment of its own."""
