"""Tools for models: what a tool is, how it is called, and how each call gets exactly one result."""
