"""The pages that an economy adds to the dashboard."""
