"""What a user asks for: each module is one thing, takes plain values and returns a report."""
