"""One folder per vendor: translation of its native forms, and how to find and drive its program."""
