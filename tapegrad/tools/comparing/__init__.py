"""The modes side by side: what each costs on a function of the user's own, measured (`compare`, `scaling`) and
predicted from its tape (`costs`, with constants that `calibration` fits).
"""
