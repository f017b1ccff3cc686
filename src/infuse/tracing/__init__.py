"""How graphs are built of programs: the importer of every reader, the array language, and what
foreign operators mean.
"""
