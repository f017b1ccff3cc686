"""Readers of foreign models; every foreign name and version quirk ends here."""
