"""What this costs, as ratios: `python -m benchmarks`. Development only; not part of the package."""
