"""Products of matrices: constants folded into weights, chains and branches merged."""
