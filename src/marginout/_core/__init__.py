"""The core: penalty + Σ shards, from y to coef_."""
