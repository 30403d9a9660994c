"""Escalations: questions that facts put to people, their deadlines, and what becomes of them."""
