"""Softmax over dot products, compiled: an optional extension, and the blocks and threads around it."""
