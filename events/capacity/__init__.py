"""Capacity events: one outage or overload of one backend as one thing, made of many failures."""
