"""Typed clients of the door: `ekiden.client.client.Client` for asyncio, `ekiden.client.plain.PlainClient`
for the command line. Both speak only what `docs/door.md` says."""
