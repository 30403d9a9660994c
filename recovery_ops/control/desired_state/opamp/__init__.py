"""Offers the desired state to standard OpAMP clients, over plain HTTP."""
