"""The forms in which exporters write operators that ONNX has as one, each as a small model.

A `Form` says which operators are to be left of it after optimization, or which rule refuses it and
why. `python -m tests.spellings` prints them by operator and exporter;
`tests/models/test_spellings.py` holds every form to what it says.
"""
