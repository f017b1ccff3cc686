"""Which of several kernels that compute the same is called: estimated, or measured."""
