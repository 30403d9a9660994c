"""Facts on their way out: a queue, a file that outlives the process, and a sender that waits for the server's word."""
