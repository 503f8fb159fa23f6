"""What ``python -m tapegrad`` offers beside the demonstration, and the pages of `docs/` that it prints."""
