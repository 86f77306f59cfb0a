"""Commands assembled from 0-9-1 frames."""
