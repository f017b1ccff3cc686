"""The FlatBuffers table of an .infuse file: its records, how they become bytes, and how they become
graphs.
"""
