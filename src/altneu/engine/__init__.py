"""What a session is made of: the catalogue of views, their readers and subscribers, and the history of steps."""
