"""Words that every room shares. No input, no output, no clock reading of its own."""
