"""Changes as collections: differentiate, integrate, and the moments in between."""
