"""The overview, the wallboard, annotations and weekly figures."""
