"""The flat tape itself: records, stores, places, printing.  Knows no rule."""
