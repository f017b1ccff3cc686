"""What tests of operators and rules need: samples, oracles, and comparison within a stated
accuracy.
"""
