"""program: charter follows."""
