"""What every room of the console is built on: commands, checks, environments, lists, forms and the API."""
