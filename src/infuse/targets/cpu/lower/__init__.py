"""How operators become kernel calls, one file per family."""
