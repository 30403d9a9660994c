"""The lists that may be too long for an answer: how their files are made at once, and as a job."""
