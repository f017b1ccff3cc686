"""Activations: one operator where there is one, exact or nearly so."""
