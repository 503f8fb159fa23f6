"""array: charter follows."""
