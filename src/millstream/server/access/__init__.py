"""Who may do what, how often, and how much at once."""
