"""Data that models are run on: examples, their feeds, sequences among inputs, and scores."""
