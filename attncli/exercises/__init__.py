"""Exercises: problem files to begin with, and variants of one with their keys."""
