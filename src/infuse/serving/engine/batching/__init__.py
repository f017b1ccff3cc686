"""Which requests run together, and when: a bounded queue, a model of time by batch size, and the
batcher.
"""
