"""Linear logic, evaluated over batches of updates."""
