"""What programs outside rely on, frozen as golden files, and the comparison through the table of old and new names."""
