"""What outlives an attempt: recorded steps, sleeps, waits for signals, and what undoes them."""
