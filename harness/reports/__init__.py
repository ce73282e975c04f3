"""Reports: text, JSON and more from the same records."""
