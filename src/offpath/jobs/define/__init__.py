"""Definitions of tasks: what ``@app.task`` and ``@app.batch_task`` make."""
