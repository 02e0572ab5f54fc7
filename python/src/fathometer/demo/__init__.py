"""``fathom demo``: the articles' whole map, emulated here, measured and explained in two minutes."""
