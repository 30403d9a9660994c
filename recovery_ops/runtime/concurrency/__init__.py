"""What differs between threads, asyncio and trio, so that nothing else has to know."""
