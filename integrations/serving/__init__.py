"""A judge server for rewards, and its clients."""
