"""Provides the seed of tests that draw random cases: SEED of the environment, or a new one. Every run prints
it."""

import os
import random

SEED = int(os.environ.get("SEED") or random.randrange(10**6))
print(f"seed {SEED}: SEED={SEED} draws the same cases", flush=True)
