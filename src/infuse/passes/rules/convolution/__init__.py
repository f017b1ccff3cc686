"""Convolutions and pools: what stands around them goes into filters and windows."""
