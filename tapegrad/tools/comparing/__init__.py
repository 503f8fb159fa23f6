"""The modes side by side on a function of the user's own: what each costs, measured, and predicted from its tape."""
