"""The arithmetic behind each number: terms that can be shown, computed, rounded on the way, or kept exact."""
