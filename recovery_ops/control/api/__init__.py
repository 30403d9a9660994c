"""The machines' door: shows what the screens show and does what they do, by the same queries and actions."""
