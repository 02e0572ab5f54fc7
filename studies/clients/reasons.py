"""Why a library and our model of it lose different requests, where they differ by more than one."""

WHY: dict[tuple[str, str, str], str] = {}
