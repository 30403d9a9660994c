"""What differs between threads, asyncio and trio."""
