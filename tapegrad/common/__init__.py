"""common: charter follows."""
