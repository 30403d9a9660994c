"""The policy document: its model, settings, parts, schema, checks and lint."""
