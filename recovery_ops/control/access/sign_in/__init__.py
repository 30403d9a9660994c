"""How people come in and stay: django-allauth behind addresses and pages of ours, sessions with bounds, freshness."""
