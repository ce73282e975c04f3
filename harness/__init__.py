"""Record, reduce and compare SSE streams of LLM endpoints. Names are loaded on first use."""

__version__ = "0.1.0"
