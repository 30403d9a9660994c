"""One guarded call: admission, attempts, retries, breakers, fallbacks and model chains."""
