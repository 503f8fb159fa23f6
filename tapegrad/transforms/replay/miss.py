"""What a short way answers if the long one has to be gone."""

MISS = type("Miss", (), {"__repr__": lambda self: "MISS", "__reduce__": lambda self: "MISS"})()
