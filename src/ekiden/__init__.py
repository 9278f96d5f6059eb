"""Ekiden: a self-hosted place where AI-agent work changes hands."""

__version__ = "0.1.0"
