"""Why a library and our model of it lose different requests, where they differ by more than one."""

WHY: dict[tuple[str, str, str], str] = {
    ("pauses", "hikaricp", "default"): (
        "HikariCP lends the connection that this thread used last, else the oldest that is free, and a caller "
        "who gave up leaves a thread that goes on testing dead connections for up to 30 s (connectionTimeout). "
        "Our pool lends the newest or the oldest: with order = lifo it loses fewer than HikariCP, with fifo more"
    ),
}
