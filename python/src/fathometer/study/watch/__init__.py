"""The faces of a study that is watched: terminal, plain lines, web page."""
