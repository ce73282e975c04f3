"""One module for each format that can be imported; harness/importing.py tells which reads what."""
