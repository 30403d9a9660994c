"""What is done about a failure: verdicts, compensations, interventions."""
