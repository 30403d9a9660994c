"""Policies: editor, proposals, releases, rollouts, masking and unclassified failures."""
