"""Settings of the tests."""

import os

from hypothesis import settings

# As the command line has it (`fathometer.early`), before any test imports numpy: there are as many workers as
# processors.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# These cores are shared: how long an example takes says nothing. CI tries the same examples every time.
settings.register_profile("ours", deadline=None, max_examples=60, derandomize=os.environ.get("CI") == "true")
settings.load_profile("ours")
