"""What can be seen of a running server: statistics, metrics, traces, logs, objectives, and where
the time goes.
"""
