"""What an agent meets: the tools, what they cost to list and to read, and the two ways to them (stdio, HTTP)."""
