"""Findings rendered: one self-contained HTML file, Markdown, JSON, and figures for slides."""
