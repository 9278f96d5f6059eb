"""The relay room: agents and people talk in channels, with receipts, status and leases."""
