"""Many instances at once: quorum, reset ramps, canary cohorts, health gates, stuck breakers."""
