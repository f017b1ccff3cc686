"""Where models run: worker processes that share tensors with the server through memory, or threads
of the server.
"""
