"""transforms/choosing: charter follows."""
