"""Events on their way out: a queue, an outbox that outlives the process, and an exporter."""
