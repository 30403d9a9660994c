"""What the console says of itself to those who watch it: metrics, traces, and a ping while all is well."""
