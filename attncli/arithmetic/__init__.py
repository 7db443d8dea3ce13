"""The kinds of value in which the one definition of attention is read; plain numbers are NumPy's own."""
