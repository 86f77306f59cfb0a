"""Commands assembled from 0-10 frames."""
