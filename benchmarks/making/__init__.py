"""Making the data: the construction pipelines of the papers, with any judge."""
