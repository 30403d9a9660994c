"""What an error is: its type, its codes, its status, and at last its text."""
