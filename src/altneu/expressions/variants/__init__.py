"""Values of the type VARIANT: how they are read and written, what is found in them, and what they become."""
