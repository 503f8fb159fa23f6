"""Walks over a tape: planning backward programs and running them natively."""
