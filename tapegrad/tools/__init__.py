"""tools: charter follows."""
