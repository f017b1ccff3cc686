"""The command line: `infuse show | optimize | why | compile | run | bench`."""
