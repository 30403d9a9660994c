"""What an error says of itself: its type, its codes, its sentences, and how long it asks us to wait."""
