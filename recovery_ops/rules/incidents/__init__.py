"""When many failures are one incident."""
