"""The parts of a session: the engine, the catalogue of views, readings, subscribers, and the history of steps."""
