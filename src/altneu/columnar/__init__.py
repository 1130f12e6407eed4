"""Columns and rows of them: how they are hashed, sorted, compared and looked up."""
