"""Makes the rules happen inside an agent."""
