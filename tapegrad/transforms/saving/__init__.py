"""transforms/saving: charter follows."""
