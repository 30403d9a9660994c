"""Escalations: questions to people, their deadlines and their outcome."""
