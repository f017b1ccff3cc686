"""The command line: `infuse show | optimize | compile | run | bench | inspect | compare …`."""
