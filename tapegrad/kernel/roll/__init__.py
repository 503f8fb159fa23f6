"""Rolling: the loops of a program found again in the flat list of what it did."""
