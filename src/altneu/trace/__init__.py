"""Updates, batches of them, and the spines of batches that arrangements are."""
