"""attncli: an attention calculator for the command line and for Python."""

__version__ = "0.1.0"
