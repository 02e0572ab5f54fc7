"""Studies: a file that names hosts, paths, probes, repetitions and schedule, and what runs it."""
