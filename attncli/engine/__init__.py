"""The fast second form of attention: what is large goes by blocks, on all cores, and nothing of n x m is held."""
