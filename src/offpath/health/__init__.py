"""Health: nothing is green unless work moves. Settlement runs, and what judges loops."""
