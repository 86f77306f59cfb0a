"""Hypothesis without its stopwatch, which noisy machines trip over."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
