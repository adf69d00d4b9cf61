"""Matching annotated objects in edited images, from pixels only."""
