"""Users, roles, API keys and sign-in."""
