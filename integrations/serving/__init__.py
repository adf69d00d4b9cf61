"""A reward as a server, and clients for it: one judge for many trainers and machines."""
