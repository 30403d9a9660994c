"""The desired state on its way in: received, judged, applied, answered."""
