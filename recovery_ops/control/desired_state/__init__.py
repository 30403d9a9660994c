"""The document that agents apply, its stream, and how far it has propagated."""
