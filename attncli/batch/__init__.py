"""Many problems in one call: which they are, how each becomes a result, and who computes them."""
