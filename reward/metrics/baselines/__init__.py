"""What the papers compare their metrics with: similarity of CLIP features, and one plain question to a judge."""
