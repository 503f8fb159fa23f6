"""What ``python -m tapegrad`` (`tapegrad.__main__`) offers beside the demonstration, and the pages of `docs/` that it prints."""
