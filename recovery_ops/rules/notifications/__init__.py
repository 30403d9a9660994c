"""When people are notified: grouping, levels, deliveries, digests."""
