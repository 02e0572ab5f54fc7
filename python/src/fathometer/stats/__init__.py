"""Statistics of round-trip series: arrays in, frozen results out. No files, no recordings, no words for
people beyond a doubt.

Every method names its source; what was tried and found to lie (anything that takes samples as independent) is
not here.
"""
