"""transforms: charter follows."""
