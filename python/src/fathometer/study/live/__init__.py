"""What a study does now: a model without clock or file (`model`), and what feeds it (`follow`)."""
