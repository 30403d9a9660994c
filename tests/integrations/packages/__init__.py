"""What needs packages that only the integrations' own environment has; `test_packages.py` runs it."""
