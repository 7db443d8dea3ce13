"""The definition of attention: its steps, each one formula, and what they are made of."""
