"""The neutral words for what is in a session, and nothing that knows a vendor."""
