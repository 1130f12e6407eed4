"""Where plans meet rows: the worker step, and the two executors that run it."""
