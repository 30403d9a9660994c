"""Steps that survive the death of the process."""
