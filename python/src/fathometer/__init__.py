"""Fathometer's understanding half: recordings in, statistics, findings and reports out.

Layers, enforced by import-linter: ``dataset <- stats <- findings <- report <- cli``, with ``study`` beside.
The measuring half is the Rust binary ``fathom``; they meet in the recording format, ``schema/recording.md``.
"""

__version__ = "0.1.0"
