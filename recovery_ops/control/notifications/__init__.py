"""Messages to people: rules, detectors, channels, deliveries and escalation policies."""
