"""What the inputs hold: dtypes, coordinate-addressed data, and the poison of slots that nobody may read."""
