"""Running jobs: one worker process, from leasing a job to recording how it ended.

``worker`` is the life of it and ``engine`` the way of one job; every other module is one part:
what is held (``hand``), how it is fetched (``claiming``), run (``executor``), judged (``judge``),
recorded (``settling``), kept alive (``heartbeat``) and given back (``stopping``).
"""
