"""The console's pages: queries go in, a template comes out; forms are checked, handed to an action, and answered."""
