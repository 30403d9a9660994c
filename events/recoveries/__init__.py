"""Recoveries by day: which runs met trouble, what became of them, what that cost or saved. Kept beyond the facts."""
