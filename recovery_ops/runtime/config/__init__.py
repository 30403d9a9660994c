"""The desired state on its way in: received, checked, applied, confirmed."""
